// SPDX-License-Identifier: Apache-2.0
// f32 to 8 bits in one step of a pointwise program: GCC makes of the conversion alone what takes longer than all of
// this. NaN becomes 0.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <limits>

#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise_steps.h"

namespace temper {

namespace {

template <class To, bool divides>
To quantize(float x, float scale, float zero) {
  const float value = std::nearbyint(divides ? x / scale : x * scale) + zero;
  constexpr float low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  return value != value ? To(0) : value <= low ? To(low) : value >= high ? To(high) : To(value);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define TEMPER_AVX2 __attribute__((target("avx2")))

// Whole numbers that leave 16 bits leave 8 bits, too: packing saturates at both. What exceeds 32 bits must not come to
// the conversion, which makes of it the least number there is.
template <bool divides>
TEMPER_AVX2 inline __m256i whole(const float* x, __m256 scale, __m256 of_nan) {
  const __m256 value = _mm256_loadu_ps(x), scaled = divides ? _mm256_div_ps(value, scale) : _mm256_mul_ps(value, scale);
  const __m256 known = _mm256_blendv_ps(of_nan, scaled, _mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q));
  return _mm256_cvtps_epi32(_mm256_min_ps(known, _mm256_set1_ps(float(1 << 30))));  // rounds half to even
}

// Elements 0 to 32 * (n / 32); gives how many.
template <class To, bool divides>
TEMPER_AVX2 int64_t quantize_avx2(const float* x, float scale, float zero, To* out, int64_t n) {
  const __m256 by = _mm256_set1_ps(scale), nan = _mm256_set1_ps(-zero);  // 0 once the zero point is added
  const __m256i shift = _mm256_set1_epi16(int16_t(zero)), in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    // Lanes: 0-3, 8-11 and 4-7, 12-15; of bytes 0-3, 8-11, 16-19, 24-27 and the others.
    const __m256i first = _mm256_packs_epi32(whole<divides>(x + i, by, nan), whole<divides>(x + i + 8, by, nan)),
                  second = _mm256_packs_epi32(whole<divides>(x + i + 16, by, nan), whole<divides>(x + i + 24, by, nan));
    const __m256i low = _mm256_adds_epi16(first, shift), high = _mm256_adds_epi16(second, shift);
    const __m256i bytes = std::is_signed_v<To> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permutevar8x32_epi32(bytes, in_order));
  }
  return i;
}
#endif

template <class To, bool divides>
void quantize_step(const StepArgs& s) {
  const float* const x = static_cast<const float*>(s.a);
  const float scale = *static_cast<const float*>(s.b), zero = *static_cast<const float*>(s.c);
  To* const out = static_cast<To*>(s.out);
  int64_t i = 0;
#if defined(__x86_64__) && defined(__GNUC__)
  if (!s.a_uniform && cpu_isa() != Isa::base) i = quantize_avx2<To, divides>(x, scale, zero, out, s.n);
#endif
  for (; i < s.n; ++i) out[i] = quantize<To, divides>(x[s.a_uniform ? 0 : i], scale, zero);
}

}  // namespace

StepFn find_quantize(bool divides, DType to) {
  if (to == DType::i8) return divides ? &quantize_step<int8_t, true> : &quantize_step<int8_t, false>;
  return divides ? &quantize_step<uint8_t, true> : &quantize_step<uint8_t, false>;
}

}  // namespace temper
