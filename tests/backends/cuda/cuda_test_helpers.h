// SPDX-License-Identifier: Apache-2.0
// What the CUDA tests share: the compiler of ./dev setup or of the system, and a GPU where there is one.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/driver.h"

namespace temper::testing {

// Where ./dev setup puts NVRTC: the site-packages folder beside the Python of the tests.
inline cuda::LibrarySearch cuda_search() {
  cuda::LibrarySearch search;
  const std::filesystem::path lib = std::filesystem::path(TEMPER_PYTHON).parent_path().parent_path() / "lib";
  std::error_code error;
  for (std::filesystem::directory_iterator it(lib, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with("python"))
      search.folders.push_back((it->path() / "site-packages").string());
  return search;
}

// A folder that goes with the process.
struct CubinFolder {
  std::string path = (std::filesystem::path(::testing::TempDir()) / concat("temper_test_cubins_", getpid())).string();
  ~CubinFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
};

// Null, with the reason, where there is no NVRTC. One for the whole process; it keeps what it compiled as long.
inline const cuda::Compiler* nvrtc(std::string& why_not) {
  static std::string reason;
  static const CubinFolder folder;
  static const std::unique_ptr<cuda::Compiler> compiler = [] {
    try {
      return std::make_unique<cuda::Compiler>(cuda_search(), folder.path);
    } catch (const Error& error) {
      reason = error.what();
      return std::unique_ptr<cuda::Compiler>();
    }
  }();
  why_not = reason;
  return compiler.get();
}

// Null, with the reason, where there is no GPU.
inline cuda::GpuRef gpu(std::string& why_not) {
  static std::string reason;
  static const cuda::GpuRef gpu = [] {
    try {
      return cuda::Gpu::open(cuda::Driver::open({}), 0);
    } catch (const Error& error) {
      reason = error.what();
      return cuda::GpuRef();
    }
  }();
  why_not = reason;
  return gpu;
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
