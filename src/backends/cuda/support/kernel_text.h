// SPDX-License-Identifier: Apache-2.0
// The code of the .cu and .cuh files under src/backends/cuda, embedded in the binary by CMake without its comments, and
// packed.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace temper::cuda {

struct KernelText {
  std::string_view path;  // from src/, as #include names it
  std::string_view text;  // a 0 stands behind it
};
std::span<const KernelText> kernel_texts();
// The texts that `text` includes, directly or through another, each once. A line of #include stands alone, also in a
// part that the preprocessor leaves out.
std::vector<KernelText> included_texts(std::string_view text);

}  // namespace temper::cuda
