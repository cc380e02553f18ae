// SPDX-License-Identifier: Apache-2.0
// Squares of 4-byte elements that are transposed in registers: 8 a side where vectors have 32 bytes, 16 where they have
// 64. Call inside vectorised(), and the larger only there: a vector wider than the machine's goes through memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/cpu/vectors.h"

namespace temper {

// 8x8 elements of 4 bytes: rows of `from` become columns of `to`. Three rounds of pairwise interleaving.
using Row8 = VectorOf<8, uint32_t>::Type;
inline void transpose_8x8(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride) {
  Row8 r[8], t[8];
  for (int i = 0; i < 8; ++i) load(from + i * from_stride, r[i]);
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    r[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    r[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    const Row8 first = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    const Row8 second = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    store(first, to + i * to_stride);
    store(second, to + (i + 4) * to_stride);
  }
}

// 16x16 elements of 4 bytes: rows of `from` become columns of `to`. Four rounds that exchange ever larger pieces
// between rows.
using Row16 = VectorOf<16>::Type;
inline void transpose_16x16(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  Row16 r[16], t[16];
  for (int i = 0; i < 16; ++i) load(from + i * from_stride, r[i]);
  for (int i = 0; i < 16; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; ++k) {
      const Row16 &a = t[i + k], &b = t[i + k + 2];
      r[i + 2 * k] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      r[i + 2 * k + 1] = __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  // Now r[4i + k] holds, in its quarter q, column 4q + k of rows 4i to 4i + 3.
  for (int k = 0; k < 4; ++k)
    for (int half = 0; half < 2; ++half) {
      const auto quarters = [half](const Row16& a, const Row16& b, Row16& both) {
        both = half ? __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
                    : __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
      };
      Row16 upper, lower;
      quarters(r[k], r[4 + k], upper), quarters(r[8 + k], r[12 + k], lower);
      const Row16 first =
          __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      const Row16 second =
          __builtin_shufflevector(upper, lower, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
      store(first, to + (8 * half + k) * to_stride);
      store(second, to + (8 * half + 4 + k) * to_stride);
    }
}

}  // namespace temper
