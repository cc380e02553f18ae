// SPDX-License-Identifier: Apache-2.0
// What the CUDA tests share: the compiler of ./dev setup or of the system, and a GPU where there is one.
#pragma once
#include <gtest/gtest.h>

#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/driver.h"

namespace temper::testing {

// Where ./dev setup puts NVRTC: the site-packages folder beside the Python of the tests.
cuda::LibrarySearch cuda_search();

// Null, with the reason, where there is no NVRTC. One for the whole process; it keeps what it compiled as long.
const cuda::Compiler* nvrtc(std::string& why_not);

// Null, with the reason, where there is no GPU.
cuda::GpuRef gpu(std::string& why_not);

#define TEMPER_NEEDS_NVRTC(compiler)                                             \
  std::string no_nvrtc;                                                          \
  const ::temper::cuda::Compiler* compiler = ::temper::testing::nvrtc(no_nvrtc); \
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << no_nvrtc
#define TEMPER_NEEDS_GPU(device)                                        \
  std::string no_gpu;                                                   \
  const ::temper::cuda::GpuRef device = ::temper::testing::gpu(no_gpu); \
  if (!device) GTEST_SKIP() << "no GPU: " << no_gpu

}  // namespace temper::testing
