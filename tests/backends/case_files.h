// SPDX-License-Identifier: Apache-2.0
// What every backend's run over tests/cases shares: the files, and how far a result may be from the reference.
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "../paths.h"
#include "base/dtype.h"

namespace temper::testing {

inline std::vector<std::string> case_files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(paths::source_folder()) + "/tests/cases"))
    if (entry.path().extension() == ".cases") out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

struct Tolerance {
  double relative, absolute;
};
// Inputs make sums and products exact; what is left is the rounding of results and the error of functions.
inline Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return {1e-12, 1e-12};
    case DType::f16: return {2e-3, 1e-3};
    case DType::bf16: return {1.6e-2, 4e-3};
    case DType::f8e4m3fn: return {0.13, 0x1p-9};  // one code
    default: return {5e-6, 5e-6};
  }
}

}  // namespace temper::testing
