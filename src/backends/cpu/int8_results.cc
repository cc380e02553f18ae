// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/int8_results.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>

#include "backends/cpu/isa.h"

namespace temper {

std::optional<IntegerEpilogue> Int8Results::absorb(const Problem& problem, const Program& program, size_t channel_axis,
                                                   Layout layout) {
  for (const IntegerAbsorb absorb : {IntegerAbsorb::all, IntegerAbsorb::scale, IntegerAbsorb::nothing}) {
    auto epilogue = absorb_integer_epilogue(problem, program, channel_axis, absorb);
    if (epilogue && EpilogueTail::supports(problem, epilogue->stored, epilogue->rest, layout).yes()) return epilogue;
  }
  return std::nullopt;
}

Int8Results::Int8Results(const Problem& problem, const IntegerEpilogue& epilogue, int64_t columns, int64_t pitch)
    : epilogue_(epilogue), pitch_(pitch) {
  if (epilogue_.stored == DType::i32) return;
  bias_ = bias_of(problem, epilogue_, columns);
  scales_ = scales_of(problem, epilogue_);
  if (scales_.size() == 1) scales_.assign(size_t(columns), scales_[0]);
  bias_.resize(size_t(columns + kSumColumns));
  scales_.resize(size_t(columns + kSumColumns));
}

void Int8Results::write(const int32_t* sums, int64_t count, int64_t column, int64_t columns, const void* residual,
                        void* y, int64_t at) const {
#if defined(__x86_64__) && defined(__GNUC__)
  if (epilogue_.stored != DType::i32 && columns == kSumColumns && cpu_isa() != Isa::base)
    return write_avx2(sums, count, column, residual, y, at);
#endif
  for (int64_t r = 0; r < count; ++r) write_row(sums + r * kSumColumns, at + r * pitch_, column, columns, residual, y);
}

#if defined(__x86_64__) && defined(__GNUC__)
// write_row() for several rows of 16 columns.
__attribute__((target("avx2,fma"))) void Int8Results::write_avx2(const int32_t* sums, int64_t count, int64_t column,
                                                                 const void* residual, void* y, int64_t begin) const {
  // Whole numbers that leave 16 bits leave 8 bits, too: packing saturates at both. What exceeds 32 bits must not come
  // to the conversion, which makes of it the least number there is.
  const float most = epilogue_.stored == DType::f32 ? INFINITY : float(1 << 30);
  const __m256 zero = _mm256_setzero_ps(), beside = _mm256_set1_ps(float(epilogue_.residual_scale)),
               limit = _mm256_set1_ps(epilogue_.limit >= 0 ? std::min(most, float(epilogue_.limit)) : most);
  const __m256i shift = _mm256_set1_epi16(int16_t(epilogue_.zero_point));
  const __m256i residual_zero = _mm256_set1_epi32(epilogue_.residual_zero);
  const bool active = epilogue_.relu || epilogue_.limit >= 0, signed_residual = epilogue_.residual_dtype == DType::i8;
  for (int64_t r = 0; r < count; ++r) {
    const int64_t at = begin + r * pitch_;
    __m256 values[2];
    for (int64_t half = 0; half < 2; ++half) {
      const __m256i sum = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + r * kSumColumns) + half);
      __m256 value =
          _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(bias_.data() + column + 8 * half)),
                        _mm256_loadu_ps(scales_.data() + column + 8 * half));
      if (residual) {
        const __m128i bytes =
            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(static_cast<const std::byte*>(residual) + at + 8 * half));
        const __m256i other = signed_residual ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
        value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(other, residual_zero)), beside, value);
      }
      if (active) value = _mm256_max_ps(value, zero);
      values[half] = _mm256_min_ps(limit, value);  // NaN stays
    }
    if (epilogue_.stored == DType::f32) {
      _mm256_storeu_ps(static_cast<float*>(y) + at, values[0]);
      _mm256_storeu_ps(static_cast<float*>(y) + at + 8, values[1]);
      continue;
    }
    // Rounded half to even. Both halves' lanes: [0-3, 8-11 | 4-7, 12-15], then in order.
    const __m256i lanes = _mm256_packs_epi32(_mm256_cvtps_epi32(values[0]), _mm256_cvtps_epi32(values[1]));
    const __m256i words = _mm256_adds_epi16(_mm256_permute4x64_epi64(lanes, 0xd8), shift);
    const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<std::byte*>(y) + at),
                     epilogue_.stored == DType::i8 ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high));
  }
}
#endif

void Int8Results::write_row(const int32_t* sums, int64_t at, int64_t column, int64_t columns, const void* residual,
                            void* y) const {
  if (epilogue_.stored == DType::i32) {
    std::copy_n(sums, columns, static_cast<int32_t*>(y) + at);
    return;
  }
  float values[kSumColumns] = {}, beside[kSumColumns] = {};
  if (residual) {
    const bool negative = epilogue_.residual_dtype == DType::i8;
    for (int64_t c = 0; c < columns; ++c)
      beside[c] = float((negative ? int32_t(static_cast<const int8_t*>(residual)[at + c])
                                  : int32_t(static_cast<const uint8_t*>(residual)[at + c])) -
                        epilogue_.residual_zero);
  }
  const float *bias = bias_.data() + column, *scales = scales_.data() + column;
  const bool whole = epilogue_.stored != DType::f32, relu = epilogue_.relu, clips = epilogue_.limit >= 0;
  const float least = epilogue_.stored == DType::i8 ? -128.f : 0.f,
              most = epilogue_.stored == DType::i8 ? 127.f : 255.f, zero = float(epilogue_.zero_point),
              limit = float(epilogue_.limit), residual_scale = float(epilogue_.residual_scale);
  const bool adds = residual != nullptr;
  float* const out = values;
  const float* const other = beside;
  vectorised_by_8([=] {
    for (int64_t c = 0; c < kSumColumns; ++c) {
      float value = (float(sums[c]) + bias[c]) * scales[c];
      if (adds) value = std::fma(other[c], residual_scale, value);
      if (relu || clips) value = value > 0 ? value : 0;
      if (clips) value = value < limit ? value : limit;
      if (whole) {
        value = std::nearbyint(value) + zero;
        value = value > least ? value : least;
        value = value < most ? value : most;
      }
      out[c] = value;
    }
  });
  switch (epilogue_.stored) {
    case DType::i8:
      for (int64_t c = 0; c < columns; ++c) static_cast<int8_t*>(y)[at + c] = int8_t(values[c]);
      break;
    case DType::u8:
      for (int64_t c = 0; c < columns; ++c) static_cast<uint8_t*>(y)[at + c] = uint8_t(values[c]);
      break;
    default: std::copy_n(values, columns, static_cast<float*>(y) + at);
  }
}

}  // namespace temper
