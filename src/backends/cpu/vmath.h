// SPDX-License-Identifier: Apache-2.0
// f32 mathematics without branches, tables or calls, so that loops over it vectorise. Errors are bounds found by
// comparing with double precision over all magnitudes (tests/backends/vmath_test.cc), in units of the last place.
// The file is compiled without -ffast-math: the order of operations written here is the one that runs.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

namespace temper::vmath {

inline float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t as_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float magnitude(float x) { return as_float(as_bits(x) & 0x7fffffffu); }
inline float with_sign_of(float positive, float sign) {
  return as_float(as_bits(positive) | (as_bits(sign) & 0x80000000u));
}

// Adding and subtracting 1.5 * 2^23 rounds |x| < 2^22 to the nearest integer; the integer is in the low bits of the
// sum.
constexpr float kRound = 0x1.8p23f;
constexpr float kLog2e = 0x1.715476p0f;
constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // the high part times |n| < 256 is exact

// (e^r - 1) for |r| <= ln(2)/2: its Taylor series up to r^7/7!; the next term is below 2^-27 of the result.
inline float expm1_core(float r) {
  float p = 1.f / 5040;
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  return p * r * r + r;
}

// x as k ln(2) + r with |r| <= ln(2)/2, for |x| < 177.
struct OfLn2 {
  int32_t k;
  float r;
};
inline OfLn2 of_ln2(float x) {
  const float shifted = x * kLog2e + kRound;
  const float n = shifted - kRound;
  return {int32_t(as_bits(shifted) - as_bits(kRound)), (x - n * kLn2High) - n * kLn2Low};
}
inline float power_of_two(int32_t k) { return as_float(uint32_t(k + 127) << 23); }  // -126 <= k <= 127; 128: infinity

// e^x within 1.5 ulp; subnormal results within one subnormal step.
inline float exp(float x) {
  x = x < -104.f ? -104.f : x;  // below: 0
  x = x > 89.f ? 89.f : x;      // above: infinity
  const auto [k, r] = of_ln2(x);
  // 2^k in two factors: k reaches from -150 to 128.
  const int32_t half = k >> 1;
  const float p = expm1_core(r) + 1.f;
  return p * power_of_two(half) * power_of_two(k - half);
}

// e^x for x <= 0 within 1.5 ulp, and 0 below -87, where it is about to leave the normal numbers: one factor of 2^k will
// do, and one bound.
inline float exp_below_zero(float x) {
  constexpr float kLeast = -87.f;
  const auto [k, r] = of_ln2(x < kLeast ? kLeast : x);
  const float e = (expm1_core(r) + 1.f) * power_of_two(k);
  return x < kLeast ? 0.f : e;
}

// log(x) = n log 2 + log(m) with sqrt(1/2) <= m < sqrt(2); log(m) = 2 atanh((m-1)/(m+1)), whose series ends at s^9
// (the next term is below 2^-28 of the result). Within 2 ulp.
inline float log(float x) {
  const bool tiny = x < std::numeric_limits<float>::min();
  const float scaled = tiny ? x * 0x1p23f : x;
  const uint32_t bits = as_bits(scaled) - 0x3f3504f3u;  // sqrt(1/2)
  const int32_t exponent = (int32_t(bits) >> 23) - (tiny ? 23 : 0);
  const float m = as_float((bits & 0x007fffffu) + 0x3f3504f3u);
  const float n = float(exponent);
  const float f = m - 1.f;
  const float s = f / (2.f + f), z = s * s;
  const float series = z * (2.f / 3 + z * (2.f / 5 + z * (2.f / 7 + z * (2.f / 9))));
  // log(1+f) = f - s (f - series): small terms are corrections of an exact f.
  const float result = n * kLn2High + (f - (s * (f - series) - n * kLn2Low));
  const float inf = std::numeric_limits<float>::infinity();
  const float special = x == 0 ? -inf : x == inf ? inf : std::numeric_limits<float>::quiet_NaN();
  return x > 0 && x < inf ? result : special;
}

// 1 / (1 + e^-x) through e^-|x|, which cannot overflow. Within 3 ulp.
inline float sigmoid(float x) {
  const float e = exp(-magnitude(x));
  return (x < 0 ? e : 1.f) / (1.f + e);
}

// tanh(a) = t / (t + 2) with t = e^2a - 1, for a = |x|. Within 3 ulp.
inline float tanh(float x) {
  const float a = magnitude(x);
  const float y = a > 10.f ? 20.f : a + a;  // tanh(10) rounds to 1
  const auto [k, r] = of_ln2(y);
  const float scale = power_of_two(k);
  const float t = scale * expm1_core(r) + (scale - 1.f);
  return with_sign_of(t / (t + 2.f), x);
}

// Both polynomials were fitted by Lawson's iteration (weighted least squares towards the minimax fit, 4000 Chebyshev
// nodes): |x| < 1: erf(x)/x in x^2, relative error 1.3e-9; 1 <= |x| < 4: -log(1 - erf(x)), error of erf 1.2e-9. Within
// 3 ulp.
inline float erf(float x) {
  const float a = magnitude(x) > 4.f ? 4.f : magnitude(x);  // erf(4) rounds to 1
  const float z = a * a;
  float p = 7.85386089e-05f;
  p = p * z - 0.000801019348f;
  p = p * z + 0.00518832767f;
  p = p * z - 0.0268538119f;
  p = p * z + 0.112835851f;
  p = p * z - 0.376126258f;
  p = p * z + 1.12837917f;
  float q = -0.0001876048f;
  q = q * a + 0.00296011421f;
  q = q * a - 0.0218896425f;
  q = q * a + 0.103218203f;
  q = q * a + 0.638012216f;
  q = q * a + 1.12717165f;
  q = q * a + 0.000320573979f;
  const float large = 1.f - exp(-q);
  return with_sign_of(a < 1.f ? p * a : large, x);
}

// x / 2 * (1 + erf(x / sqrt(2))) within 2.5e-7 of |x|: |erf(x / sqrt(2))| / 2 is |x| times a rational function of x^2,
// fitted as above up to 5.6, where it is 1/2; its own error is 1e-8.
inline float gelu(float x) {
  constexpr float kEnd = 5.6f * 5.6f;
  const float square = x * x, t = square < kEnd ? square : kEnd, a = magnitude(x);
  float p = 0x1.7cefaep-26f;
  p = p * t + 0x1.a9620cp-18f;
  p = p * t + 0x1.6a1480p-13f;
  p = p * t + 0x1.34062ap-8f;
  p = p * t + 0x1.18baa8p-5f;
  p = p * t + 0x1.988452p-2f;
  float q = 0x1.3cab56p-20f;
  q = q * t + 0x1.3929dep-14f;
  q = q * t + 0x1.f3bdc4p-10f;
  q = q * t + 0x1.d91eb2p-6f;
  q = q * t + 0x1.02a05ap-2f;
  q = q * t + 1.f;
  const float above = a * p / q;
  const float half = above < 0.5f ? above : 0.5f;  // exactly, or numbers far below zero would not become zeros
  return a * half + 0.5f * x;
}

// sin and cos reduce in double: n = round(x 2/pi), r = x - n pi/2 with |r| <= pi/4; exact enough up to |x| < 2^30,
// which the caller checks. Taylor series to r^9 and r^10 (next terms below 2^-26). Within 2 ulp, or 1e-9 near a zero.
inline float sin_or_cos(float x, int quarter) {
  const double shift = 0x1.8p52;
  const double n = (double(x) * 0.63661977236758134308 + shift) - shift;
  const double wide = (double(x) - n * 1.5707963267948965580) - n * 6.123233995736766036e-17;
  const int32_t quadrant = int32_t(n) + quarter;
  const float r = float(wide), z = r * r;
  const float sine = r + r * z * (-1.f / 6 + z * (1.f / 120 + z * (-1.f / 5040 + z * (1.f / 362880))));
  const float cosine = 1.f - z * (0.5f - z * (1.f / 24 - z * (1.f / 720 - z * (1.f / 40320 - z * (1.f / 3628800)))));
  const float value = quadrant & 1 ? cosine : sine;
  return as_float(as_bits(value) ^ (uint32_t(quadrant & 2) << 30));
}
constexpr float kTrigLimit = 0x1p30f;

}  // namespace temper::vmath
