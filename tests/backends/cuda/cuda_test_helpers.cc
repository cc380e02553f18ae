// SPDX-License-Identifier: Apache-2.0
#include "cuda_test_helpers.h"

#include <filesystem>

#include "base/file.h"

namespace temper::testing {

cuda::LibrarySearch cuda_search() {
  cuda::LibrarySearch search;
  const std::filesystem::path lib = std::filesystem::path(TEMPER_PYTHON).parent_path().parent_path() / "lib";
  std::error_code error;
  for (std::filesystem::directory_iterator it(lib, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with("python"))
      search.folders.push_back((it->path() / "site-packages").string());
  return search;
}

const cuda::Compiler* nvrtc(std::string& why_not) {
  static std::string reason;
  static const std::unique_ptr<cuda::Compiler> compiler = [] {
    try {
      return std::make_unique<cuda::Compiler>(cuda_search(), cache_folder() + "/kernels");
    } catch (const Error& error) {
      reason = error.what();
      return std::unique_ptr<cuda::Compiler>();
    }
  }();
  why_not = reason;
  return compiler.get();
}

bool nvrtc_of_setup(std::string& why_not) {
  cuda::LibrarySearch search = cuda_search();
  search.system = false;
  try {
    cuda::Compiler(search, "");
  } catch (const Error& error) {
    why_not = error.what();
    return false;
  }
  return true;
}

cuda::GpuRef gpu(std::string& why_not) {
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

}  // namespace temper::testing
