// SPDX-License-Identifier: Apache-2.0
// A scripted GPU that runs its kernels: they are compiled for the CPU.
#pragma once
#include "../../paths.h"
#include "scripted_gpu.h"

namespace temper::testing {

class EmulatedGpu {
 public:
  EmulatedGpu() : compiler_({{paths::emulator_folder()}, false}, "") {
    ScriptedGpus::get().reset();
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

}  // namespace temper::testing
