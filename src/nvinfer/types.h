// SPDX-License-Identifier: Apache-2.0
// TensorRT's numbers of types of data.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace temper::nvinfer {

// By DType; -1: TensorRT has no such type.
constexpr std::array<int32_t, kDTypeCount> kTypeNumbers = {0, 1, 7, -1, 2, 5, -1, -1, 3, -1, 8, -1, 4};

inline int32_t type_number(DType dtype) { return is_stored_only(dtype) ? -1 : kTypeNumbers[size_t(dtype)]; }
// Nothing for a number of no type, or of one that Temper does not compute with (FP8, INT4).
inline std::optional<DType> type_of_number(int32_t number) {
  for (size_t i = 0; number >= 0 && i < kTypeNumbers.size(); ++i)
    if (kTypeNumbers[i] == number) return DType(i);
  return std::nullopt;
}

}  // namespace temper::nvinfer
