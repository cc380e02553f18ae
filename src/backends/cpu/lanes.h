// SPDX-License-Identifier: Apache-2.0
// Reductions that vectorise without reassociation by the compiler: kLanes partial results side by side, folded at the
// end in one fixed order, so that a result depends on neither the instruction set's width nor the number of threads.
// Call inside vectorised().
#pragma once
#include <cstdint>

namespace temper {

constexpr int64_t kLanes = 64;  // four AVX-512 registers of f32: enough to hide the latency of an addition

// fold(accumulator, element) over x[0..n).
template <class A, class T, class Fold, class Join>
inline A reduce_row(const T* x, int64_t n, A start, Fold fold, Join join) {
  constexpr int64_t kFew = 16;
  if (n < 2 * kFew) {  // folding lanes together would cost more
    A result = start;
    for (int64_t i = 0; i < n; ++i) result = fold(result, x[i]);
    return result;
  }
  A few[kFew];
  for (int64_t j = 0; j < kFew; ++j) few[j] = start;
  int64_t i = 0;
  if (n >= kLanes) {
    A lanes[kLanes];
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = start;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] = fold(lanes[j], x[i + j]);
    for (int64_t j = 0; j < kFew; ++j)
      few[j] = join(join(lanes[j], lanes[j + kFew]), join(lanes[j + 2 * kFew], lanes[j + 3 * kFew]));
  }
  for (; i + kFew <= n; i += kFew)
    for (int64_t j = 0; j < kFew; ++j) few[j] = fold(few[j], x[i + j]);
  A rest = start;
  for (; i < n; ++i) rest = fold(rest, x[i]);
  for (int64_t width = kFew / 2; width > 0; width /= 2)
    for (int64_t j = 0; j < width; ++j) few[j] = join(few[j], few[j + width]);
  return join(few[0], rest);
}

// accumulators[k] = fold(accumulators[k], x[r * stride + k]) for k < width, over `rows` rows.
template <class A, class T, class Fold>
inline void reduce_columns(const T* x, int64_t rows, int64_t stride, A* accumulators, int64_t width, Fold fold) {
  auto fixed = [&]<int64_t w>() {
    A local[w];
    for (int64_t k = 0; k < w; ++k) local[k] = accumulators[k];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < w; ++k) local[k] = fold(local[k], x[r * stride + k]);
    for (int64_t k = 0; k < w; ++k) accumulators[k] = local[k];
  };
  int64_t k = 0;
  for (; k + 64 <= width; k += 64, x += 64, accumulators += 64) fixed.template operator()<64>();
  for (; k + 16 <= width; k += 16, x += 16, accumulators += 16) fixed.template operator()<16>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < width - k; ++j) accumulators[j] = fold(accumulators[j], x[r * stride + j]);
}

}  // namespace temper
