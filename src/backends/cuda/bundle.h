// SPDX-License-Identifier: Apache-2.0
// What a plan keeps of a recipe's work beside its packed constants: the cubins of its jobs in one block of bytes; and
// those jobs loaded on a GPU, ready to be launched. A job itself is not kept: Recipe::work makes it again from problem
// and configuration, so that which kernels are launched, on what and with which grids, is never the plan's to say. What
// the kernels do is: a cubin is machine code for the GPU, and beside it stands a hash of the text that it was compiled
// from, not of the cubin. That finds plans of other kernels, no intent: whoever can write a plan can have it run any
// code on the GPU, with all memory of this process there. A plan is to be trusted as a program is.
#pragma once
#include "backends/cuda/recipe.h"
#include "base/aligned.h"

namespace temper::cuda {

// Compiles the jobs; equal texts are kept once. Slow; build time only.
AlignedBytes make_bundle(const std::vector<Job>& jobs, const Compiler& compiler, const std::string& architecture);

// A view of such bytes, which must stay alive. Throws Error{bad_file} unless they are whole and say that they were made
// of the texts that `jobs` have now, and unless all that a cubin's headers point to lies inside of the cubin (the
// driver is not told where it ends); Error{unsupported} where they were made for another architecture.
class Bundle {
 public:
  Bundle(std::span<const std::byte> bytes, const std::vector<Job>& jobs, const std::string& architecture);
  std::span<const std::byte> cubin(size_t job) const { return cubins_[job]; }

 private:
  std::vector<std::span<const std::byte>> cubins_;
};

// Addresses that the slots of a job are resolved with; all at least 16-byte aligned.
struct DeviceBuffers {
  std::span<const DevicePointer> inputs, outputs;
  DevicePointer workspace = 0, packed = 0, fault = 0;
};

// Whether a launch of the work looks at this input of the problem.
bool reads(const Recipe::Work& work, int input);

// Jobs whose kernels are loaded. Immutable; several streams may launch it at the same time.
class LoadedWork {
 public:
  LoadedWork(const GpuRef& gpu, Recipe::Work work, const Bundle& bundle);
  const Recipe::Work& work() const { return work_; }
  // Puts the launches into the stream, also while it is being captured; waits for nothing.
  void launch(const Stream& stream, const DeviceBuffers& buffers) const;

 private:
  Recipe::Work work_;
  std::vector<std::shared_ptr<const Module>> modules_;  // one for each job
  std::vector<Function> functions_;                     // one for each job
};

}  // namespace temper::cuda
