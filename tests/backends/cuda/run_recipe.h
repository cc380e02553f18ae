// SPDX-License-Identifier: Apache-2.0
// Runs a recipe on a GPU with everything around it watched: guard bands, NaN in outputs and workspace, a launch and a
// replay of the same launches as a graph that must give the same bits.
#pragma once
#include <map>
#include <memory>

#include "../run_tactic.h"
#include "backends/cuda/bundle.h"
#include "backends/cuda/machine.h"
#include "backends/cuda/recipe.h"
#include "cuda_test_helpers.h"

namespace temper::testing {

// Compiles each text once, several at a time. An error ends the test that called.
class Cubins {
 public:
  Cubins(const cuda::Compiler& compiler, std::string architecture)
      : compiler_(compiler), architecture_(std::move(architecture)) {}
  void prepare(const std::vector<cuda::KernelSource>& sources);
  const cuda::Cubin& of(const cuda::KernelSource& source) const { return cubins_.at(source.text); }
  // Compiles nothing again: the compiler of the tests keeps what it made (cuda_test_helpers.h).
  AlignedBytes bundle_of(const cuda::Recipe::Work& work) const {
    return cuda::make_bundle(work.jobs, compiler_, architecture_);
  }

 private:
  const cuda::Compiler& compiler_;
  std::string architecture_;
  std::map<std::string, cuda::Cubin> cubins_;
};

// Device memory between two bands.
class GuardedDevice {
 public:
  GuardedDevice(const cuda::Stream& stream, int64_t bytes) : bytes_(bytes), memory_(stream.gpu(), bytes + 2 * kBand) {
    stream.fill(memory_.address(), 0xff, memory_.bytes());
  }
  cuda::DevicePointer address() const { return memory_.address() + kBand; }
  int64_t bytes() const { return bytes_; }
  // The content; a band that was written to fails the test.
  std::vector<std::byte> read(const cuda::Stream& stream) const;

 private:
  static constexpr int64_t kBand = 256;
  int64_t bytes_;
  cuda::DeviceMemory memory_;
};

// The launches of a recipe, ready to run on buffers of its own.
class Prepared {
 public:
  Prepared(const cuda::Stream& stream, const Cubins& cubins, const Problem& problem, const Config& config,
           const cuda::Recipe::Work& work, const std::vector<Tensor>& inputs);
  void launch() const;
  void poison() const;
  std::vector<Tensor> read() const;

 private:
  const cuda::Stream& stream_;
  const Problem& problem_;
  const Config& config_;
  std::vector<std::unique_ptr<GuardedDevice>> in_, out_;
  std::unique_ptr<GuardedDevice> workspace_, packed_, fault_;
  AlignedBytes bundle_;
  std::unique_ptr<cuda::LoadedWork> loaded_;
  std::vector<cuda::DevicePointer> in_addresses_, out_addresses_;
};

std::vector<Tensor> run_recipe(const cuda::Stream& stream, const Cubins& cubins, const Problem& problem,
                               const Config& config, const cuda::Recipe::Work& work, const std::vector<Tensor>& inputs);

}  // namespace temper::testing
