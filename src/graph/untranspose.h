// SPDX-License-Identifier: Apache-2.0
// Functions for ops that move a transpose from before them to behind them (take_untransposed in graph/op.h). `perm` is
// that of the transpose, and fields that speak of axes of its output become those that speak of its input.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace temper {

// Some axes, sorted.
inline std::vector<int64_t> untransposed_axes(const std::vector<int64_t>& axes, std::span<const int64_t> perm) {
  std::vector<int64_t> result;
  result.reserve(axes.size());
  for (int64_t axis : axes) result.push_back(perm[size_t(axis)]);
  std::sort(result.begin(), result.end());
  return result;
}

// A field with one entry for each axis; an empty one stays empty.
template <class T>
std::vector<T> untransposed(const std::vector<T>& values, std::span<const int64_t> perm) {
  std::vector<T> result(values);
  for (size_t i = 0; i < values.size(); ++i) result[size_t(perm[i])] = values[i];
  return result;
}

// For an op whose output has the axes of its input.
inline std::vector<int64_t> same_transpose(std::span<const int64_t> perm) { return {perm.begin(), perm.end()}; }

}  // namespace temper
