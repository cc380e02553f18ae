// SPDX-License-Identifier: Apache-2.0
// A block on tiles is four of them, 16x16 sums each: a step of the depth loads two tiles of either side for four
// products. Without tiles a panel's column halves are vectors of pairs, and a row's pair is broadcast to them.
#include "backends/cpu/bf16_blocks.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
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
#define TEMPER_TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

// Sums are in the tiles 0 to 3, rows in 4 and 5, columns in 6 and 7.
TEMPER_TILES void shape_tiles(int64_t rows) {
  TileShapes shapes;
  const auto first = uint8_t(std::min<int64_t>(rows, 16)), second = uint8_t(rows - first);
  shapes.rows[0] = shapes.rows[1] = shapes.rows[4] = first;
  // A tile has rows, or else no columns.
  shapes.rows[2] = shapes.rows[3] = shapes.rows[5] = std::max<uint8_t>(second, 1);
  shapes.rows[6] = shapes.rows[7] = 16;
  written(&shapes);
  _tile_loadconfig(&shapes);
}

TEMPER_TILES void multiply_tiles(const Bf16Block& block) {
  const bool both = block.rows > 16;
  const BFloat16 *a = block.a, *below = block.a + 16 * block.a_row, *b = block.b;
  const int64_t pitch = block.a_row * int64_t(sizeof(BFloat16));
  const char* next = reinterpret_cast<const char*>(block.next);
  const int64_t each = ceil_div(block.fetched, block.steps);
  written(a);
  _tile_zero(0);
  _tile_zero(1);
  if (both) {
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < block.steps; ++k) {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, pitch);
      _tile_loadd(7, b + 512, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, below, pitch);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      a += kBf16Depth, below += kBf16Depth, b += kBf16Depth * kBf16Columns;
      for (int64_t i = 0; i < each; ++i, next += 64) _mm_prefetch(next, _MM_HINT_T1);
    }
  } else {
    for (int64_t k = 0; k < block.steps; ++k) {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, pitch);
      _tile_loadd(7, b + 512, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      a += kBf16Depth, b += kBf16Depth * kBf16Columns;
      for (int64_t i = 0; i < each; ++i, next += 64) _mm_prefetch(next, _MM_HINT_T1);
    }
  }
  const int64_t to_pitch = block.sums_row * int64_t(sizeof(float));
  float* const to = block.sums;
  _tile_stored(0, to, to_pitch);
  _tile_stored(1, to + 16, to_pitch);
  if (!both) return;
  _tile_stored(2, to + 16 * block.sums_row, to_pitch);
  _tile_stored(3, to + 16 * block.sums_row + 16, to_pitch);
}

TEMPER_TILES void release_tiles() { _tile_release(); }

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

bool may_use_tiles(const Device& device) {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (!device.amx) return false;
  static const bool allowed = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
}

Bf16Multiplier::~Bf16Multiplier() {
  if (rows_) release_tiles();
}

void Bf16Multiplier::multiply(const Bf16Block& block) {
  if (tiles_) {
    if (rows_ != block.rows) shape_tiles(block.rows);
    rows_ = block.rows;
    return multiply_tiles(block);
  }
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

bool may_use_tiles(const Device&) { return false; }
Bf16Multiplier::~Bf16Multiplier() = default;
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
