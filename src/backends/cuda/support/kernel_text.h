// SPDX-License-Identifier: Apache-2.0
// The .cu and .cuh files under src/backends/cuda, embedded in the binary by CMake.
#pragma once
#include <span>
#include <string_view>

namespace temper::cuda {

struct KernelText {
  std::string_view path;  // from src/, as #include names it
  std::string_view text;
};
std::span<const KernelText> kernel_texts();
// Throws Error{usage} where there is no such file.
std::string_view kernel_text(std::string_view path);

}  // namespace temper::cuda
