// SPDX-License-Identifier: Apache-2.0
// A scripted GPU that runs its kernels: they are compiled for the CPU.
#pragma once
#include <unistd.h>

#include <filesystem>

#include "../../paths.h"
#include "base/concat.h"
#include "scripted_gpu.h"

namespace temper::testing {

inline void set_capability(int capability) {
  ScriptedGpus& gpus = ScriptedGpus::get();
  gpus.major = capability / 10, gpus.minor = capability % 10;
  if (capability == 75) gpus.shared_per_block = 64 << 10;
}

class EmulatedGpu {
 public:
  // `capability`: 90 = 9.0.
  explicit EmulatedGpu(int capability = 90) : compiler_({{paths::emulator_folder()}, false}, "") {
    ScriptedGpus::get().reset();
    set_capability(capability);
    ScriptedGpus::get().memory_bytes = int64_t(8) << 30;
    gpu_ = cuda::Gpu::open(cuda::Driver::scripted(ScriptedGpus::api()), 0);
  }
  // What a kernel or the driver's user did wrong fails the test.
  ~EmulatedGpu() {
    gpu_ = nullptr;
    EXPECT_EQ(ScriptedGpus::get().misuses, std::vector<std::string>());
  }
  const cuda::Compiler& compiler() const { return compiler_; }
  const cuda::GpuRef& gpu() const { return gpu_; }

 private:
  cuda::Compiler compiler_;
  cuda::GpuRef gpu_;
};

// Builds for "cuda:0" run on an emulated GPU, and keep what they compile in a folder of their own.
class EmulatedBuilds : public ::testing::Test {
 protected:
  void SetUp() override {
    ScriptedGpus::get().reset();
    before_ = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    open();
  }
  // From here on "cuda:0" is a GPU of this compute capability (75 = 7.5).
  void exchange(int capability) {
    set_capability(capability);
    open();
  }
  void TearDown() override {
    machines_.reset();
    ScriptedGpus::get().reset();
    if (before_.empty()) unsetenv("XDG_CACHE_HOME");
    else setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    std::filesystem::remove_all(cache_);
  }

 private:
  void open() {
    machines_.reset();
    machines_ = std::make_unique<ScriptedMachines>(cuda::LibrarySearch{{paths::emulator_folder()}, false});
  }
  const std::string cache_ =
      (std::filesystem::path(::testing::TempDir()) / concat("temper_emulated_", getpid())).string();
  std::string before_;
  std::unique_ptr<ScriptedMachines> machines_;
};

}  // namespace temper::testing
