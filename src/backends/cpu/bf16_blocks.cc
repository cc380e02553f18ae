// SPDX-License-Identifier: Apache-2.0
// Without tiles a panel's column halves are vectors of pairs, and a row's pair is broadcast to them.
#include "backends/cpu/bf16_blocks.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace temper {

Support bf16_blocks_supported(const Device& device) {
  return device.avx512_bf16 ? supported() : refused("this CPU has no products of bf16");
}

#if defined(__x86_64__)

namespace {

// Masks of all elements: GCC 12 takes what its forms without a mask begin with for a variable without a value.
constexpr __mmask16 kAll = 0xffff;
constexpr __mmask8 kAllWide = 0xff;

#define TEMPER_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

// m rows by a panel.
template <int m>
TEMPER_BF16 void multiply_pairs(const Bf16Block& block, int64_t row) {
  __m512 sums[m][2];
  for (auto& of_row : sums) of_row[0] = of_row[1] = _mm512_setzero_ps();
  const BFloat16 *a = block.a + row * block.a_row, *b = block.b;
  for (int64_t k = 0; k < block.steps; ++k, a += kBf16Depth, b += kBf16Depth * kBf16Columns)
    for (int64_t pair = 0; pair < kBf16Depth / 2; ++pair) {
      const auto left = (__m512bh)_mm512_loadu_si512(b + pair * 32);
      const auto right = (__m512bh)_mm512_loadu_si512(b + 512 + pair * 32);
#pragma GCC unroll 8
      for (int r = 0; r < m; ++r) {
        int32_t both;
        std::memcpy(&both, a + r * block.a_row + 2 * pair, sizeof both);
        const auto element = (__m512bh)_mm512_set1_epi32(both);
        sums[r][0] = _mm512_dpbf16_ps(sums[r][0], element, left);
        sums[r][1] = _mm512_dpbf16_ps(sums[r][1], element, right);
      }
    }
  for (int r = 0; r < m; ++r) {
    _mm512_storeu_ps(block.sums + (row + r) * block.sums_row, sums[r][0]);
    _mm512_storeu_ps(block.sums + (row + r) * block.sums_row + 16, sums[r][1]);
  }
}

}  // namespace

void Bf16Multiplier::multiply(const Bf16Block& block) {
  if (tiles_)
    return tiles_->multiply({block.a, block.a_row * int64_t(sizeof(BFloat16)), block.rows, block.b, block.steps,
                             block.sums, block.sums_row * int64_t(sizeof(float)), 16 * int64_t(sizeof(float)),
                             block.first, block.next, block.fetched});
  int64_t row = 0;
  for (; row + 8 <= block.rows; row += 8) multiply_pairs<8>(block, row);
  for (; row + 4 <= block.rows; row += 4) multiply_pairs<4>(block, row);
  for (; row < block.rows; ++row) multiply_pairs<1>(block, row);
}

TEMPER_BF16 void round_row(const float* from, BFloat16* to, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto some = __mmask16(n - i >= 16 ? 0xffff : (1 << (n - i)) - 1);
    const auto rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, from + i));
    _mm256_mask_storeu_epi16(to + i, some, rounded);
  }
}

TEMPER_BF16 void pack_rows_as_columns(const BFloat16* from, int64_t pitch, int64_t columns, const Bf16Panels& panels,
                                      int64_t column, BFloat16* to) {
  // Pairs are elements of four bytes: 16 columns by 16 pairs are transposed, in four rounds of ever larger pieces.
  for (int64_t k = 0; k < panels.depth; k += kBf16Depth) {
    const int64_t count = std::min(kBf16Depth, panels.depth - k);
    const auto some = count == 32 ? ~__mmask32(0) : (__mmask32(1) << count) - 1;
    __m512i r[16], t[16];
    for (int64_t c = 0; c < 16; ++c)
      r[c] = c < columns ? _mm512_maskz_loadu_epi16(some, from + c * pitch + k) : _mm512_setzero_si512();
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_maskz_unpacklo_epi32(kAll, r[i], r[i + 1]);
      t[i + 1] = _mm512_maskz_unpackhi_epi32(kAll, r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
      for (int h = 0; h < 2; ++h) {
        r[i + 2 * h] = _mm512_maskz_unpacklo_epi64(kAllWide, t[i + h], t[i + h + 2]);
        r[i + 2 * h + 1] = _mm512_maskz_unpackhi_epi64(kAllWide, t[i + h], t[i + h + 2]);
      }
    // Now r[4i + h] holds, in its quarter q, pair 4q + h of columns 4i to 4i + 3.
    BFloat16* const place = to + panels.place(k, column);
    for (int h = 0; h < 4; ++h) {
      const __m512i low0 = _mm512_maskz_shuffle_i32x4(kAll, r[h], r[4 + h], 0x88),
                    high0 = _mm512_maskz_shuffle_i32x4(kAll, r[h], r[4 + h], 0xdd),
                    low1 = _mm512_maskz_shuffle_i32x4(kAll, r[8 + h], r[12 + h], 0x88),
                    high1 = _mm512_maskz_shuffle_i32x4(kAll, r[8 + h], r[12 + h], 0xdd);
      _mm512_storeu_si512(place + h * 32, _mm512_maskz_shuffle_i32x4(kAll, low0, low1, 0x88));
      _mm512_storeu_si512(place + (8 + h) * 32, _mm512_maskz_shuffle_i32x4(kAll, low0, low1, 0xdd));
      _mm512_storeu_si512(place + (4 + h) * 32, _mm512_maskz_shuffle_i32x4(kAll, high0, high1, 0x88));
      _mm512_storeu_si512(place + (12 + h) * 32, _mm512_maskz_shuffle_i32x4(kAll, high0, high1, 0xdd));
    }
  }
}

TEMPER_BF16 void pack_two_rows(const BFloat16* from, int64_t pitch, int64_t rows, const Bf16Panels& panels, int64_t row,
                               BFloat16* to) {
  for (int64_t c = 0; c < panels.columns; c += 16) {
    const int64_t count = std::min<int64_t>(16, panels.columns - c);
    const auto some = __mmask16(count == 16 ? 0xffff : (1 << count) - 1);
    const __m256i none = _mm256_setzero_si256();
    const __m512i first = _mm512_maskz_cvtepu16_epi32(some, rows > 0 ? _mm256_maskz_loadu_epi16(some, from + c) : none);
    const __m512i second =
        _mm512_maskz_cvtepu16_epi32(some, rows > 1 ? _mm256_maskz_loadu_epi16(some, from + pitch + c) : none);
    _mm512_storeu_si512(to + panels.place(row, c), _mm512_or_si512(first, _mm512_maskz_slli_epi32(some, second, 16)));
  }
}

#else  // supports() of those who call these refuses every other CPU

void Bf16Multiplier::multiply(const Bf16Block&) { fail(ErrorKind::unsupported, "this CPU has no products of bf16"); }
void round_row(const float*, BFloat16*, int64_t) { fail(ErrorKind::unsupported, "this CPU has no products of bf16"); }
void pack_rows_as_columns(const BFloat16*, int64_t, int64_t, const Bf16Panels&, int64_t, BFloat16*) {
  fail(ErrorKind::unsupported, "this CPU has no products of bf16");
}
void pack_two_rows(const BFloat16*, int64_t, int64_t, const Bf16Panels&, int64_t, BFloat16*) {
  fail(ErrorKind::unsupported, "this CPU has no products of bf16");
}

#endif

}  // namespace temper
