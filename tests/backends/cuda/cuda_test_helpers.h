// SPDX-License-Identifier: Apache-2.0
// What the CUDA tests share: the compiler of ./dev setup or of the system, and a GPU where there is one.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/driver.h"

namespace temper::testing {

// Where ./dev setup puts NVRTC: the site-packages folder beside the Python of the tests.
cuda::LibrarySearch cuda_search();

// Null, with the reason, where there is no NVRTC. One for the whole process. What it compiles stays in the cache folder
// of the one who runs the tests: a text that did not change is not compiled again.
const cuda::Compiler* nvrtc(std::string& why_not);

// Whether ./dev setup has brought an NVRTC, and otherwise why not. Scripted GPUs take no other: one of the system's
// lies beside libraries that would look for a real GPU.
bool nvrtc_of_setup(std::string& why_not);

// Null, with the reason, where there is no GPU.
cuda::GpuRef gpu(std::string& why_not);

// Of tests of random shapes on a GPU: the first one, 1 or what TEMPER_RANDOM_FIRST says.
inline uint64_t first_seed() {
  const char* asked = std::getenv("TEMPER_RANDOM_FIRST");
  return asked ? std::strtoull(asked, nullptr, 10) : 1;
}

#define TEMPER_NEEDS_NVRTC(compiler)                                             \
  std::string no_nvrtc;                                                          \
  const ::temper::cuda::Compiler* compiler = ::temper::testing::nvrtc(no_nvrtc); \
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << no_nvrtc
#define TEMPER_NEEDS_GPU(device)                                        \
  std::string no_gpu;                                                   \
  const ::temper::cuda::GpuRef device = ::temper::testing::gpu(no_gpu); \
  if (!device) GTEST_SKIP() << "no GPU: " << no_gpu

}  // namespace temper::testing
