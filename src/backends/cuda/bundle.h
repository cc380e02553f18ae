// SPDX-License-Identifier: Apache-2.0
// A bundle is the archive of compiled kernels (cubins) that a plan stores for one step: the cubins of the step's jobs,
// in one block of bytes, beside the step's prepacked constants. LoadedWork is the same jobs loaded on a GPU and ready
// to launch.
//
// A plan does not store jobs. Recipe::work makes them again from problem and configuration when the plan is loaded, so
// a plan cannot decide which kernels are launched, on which buffers or with which grids. It does decide what the
// kernels do: a cubin is machine code, and the hash beside it is of the text that it was compiled from, not of the
// cubin. The hash detects plans that belong to other kernels; it does not detect intent. Whoever can write a plan can
// run any code on the GPU, with access to all memory of this process there. A plan must be trusted as a program is.
#pragma once
#include "backends/cuda/recipe.h"
#include "base/aligned.h"

namespace temper::cuda {

// Compiles the jobs and archives their cubins; equal texts are stored once. It is slow and belongs to build time.
AlignedBytes make_bundle(const std::vector<Job>& jobs, const Compiler& compiler, const std::string& architecture);

// A view of a bundle's bytes, which must outlive it. The constructor throws Error{bad_file} if the bytes are damaged,
// if their hashes are not of the texts that `jobs` have now, or if a cubin's headers point outside of the cubin (the
// driver is not told where a cubin ends). It throws Error{unsupported} if the cubins are for another architecture.
class Bundle {
 public:
  Bundle(std::span<const std::byte> bytes, const std::vector<Job>& jobs, const std::string& architecture);
  std::span<const std::byte> cubin(size_t job) const { return cubins_[job]; }

 private:
  std::vector<std::span<const std::byte>> cubins_;
};

// The addresses that slots are resolved to. All of them are at least 16-byte aligned.
struct DeviceBuffers {
  std::span<const DevicePointer> inputs, outputs;
  DevicePointer workspace = 0, packed = 0, fault = 0;
};

// Whether any job of the work reads this input of the problem.
bool reads(const Recipe::Work& work, int input);

// Kernels that can make their results from the last one to the first do so (Job::backwards_at); false if there is none.
bool go_backwards(Recipe::Work& work);

// Jobs whose kernels are loaded on a GPU. It is immutable, and several streams may launch it at the same time.
class LoadedWork {
 public:
  LoadedWork(const GpuRef& gpu, Recipe::Work work, const Bundle& bundle);
  const Recipe::Work& work() const { return work_; }
  // Enqueues the launches, also during graph capture. It does not wait for them.
  void launch(const Stream& stream, const DeviceBuffers& buffers) const;

 private:
  Recipe::Work work_;
  std::vector<std::shared_ptr<const Module>> modules_;  // one for each job
  std::vector<Function> functions_;                     // one for each job
};

}  // namespace temper::cuda
