// SPDX-License-Identifier: Apache-2.0
// Functions of f32 whose results are rounded to Half (f16 or bf16) next, perhaps after more factors: at most 1 ulp of
// Half off the true value where they are rounded at once; or to 8 bits (i8), and then as near as f32 is. A pipe of the
// SM makes 16 exponentials, reciprocals or tanh a clock, an eighth of its sums, so polynomials take their place where
// they are not long. Polynomials are minimax fits, by linear programs on Chebyshev points;
// tests/backends/cuda/half_functions_test.cc goes through all inputs.
#pragma once

namespace op {

// 2^24: what is scaled by it stays clear of the numbers below 2^-126, which fast instructions take for zero and bf16
// does not.
constexpr float kLift = 0x1p24f, kLower = 0x1p-24f;
constexpr float kLog2E = 0x1.715476p0f;

template <class Half>
DEVICE float exp_for(float x) {
  return exp2_fast(x * kLog2E);
}

// 1 / (1 + 2^-(x log2 e)), and 2^24 above and below.
template <class Half>
DEVICE float sigmoid_for(float x) {
  return reciprocal_fast(kLower + exp2_flushed(__fmaf_rn(x, -kLog2E, -24.0f))) * kLower;
}

// bf16: the instruction is 2^-11 off at most. f16: x P(x^2) / Q(x^2) for |x| < 5, 5.2e-5 off, and 9.1e-5 beyond.
template <class Half>
DEVICE float tanh_for(float x) {
  if constexpr (is_same<Half, bf16>) return tanh_fast(x);
  else {
    const float c = min_nan(max_nan(x, -5.0f), 5.0f), y = c * c;
    const float above = __fmaf_rn(__fmaf_rn(y, 0x1.ac7f06p-5f, 0x1.ff4b4ap2f), y, 0x1.37ffcap6f);
    const float below = __fmaf_rn(y + 0x1.0fb926p5f, y, 0x1.3803fp6f);
    return c * above * reciprocal_fast(below);
  }
}

// x P(x^2) for |x| < 2.8, 5.3e-5 off, and 7.5e-5 beyond.
template <class Half>
DEVICE float erf_for(float x) {
  const float c = min_nan(max_nan(x, -2.8f), 2.8f), y = c * c;
  float p = __fmaf_rn(y, -0x1.694fbp-21f, 0x1.a3201cp-16f);
  p = __fmaf_rn(p, y, -0x1.a99a5cp-12f);
  p = __fmaf_rn(p, y, 0x1.f9f17cp-9f);
  p = __fmaf_rn(p, y, -0x1.8fcb3cp-6f);
  p = __fmaf_rn(p, y, 0x1.c4a392p-4f);
  p = __fmaf_rn(p, y, -0x1.803e6cp-2f);
  return c * __fmaf_rn(p, y, 0x1.20d98cp0f);
}

// x * F(x) with the normal distribution F, as max(x, 0) - |x| F(-|x|): the logarithm of F(-a) is near a parabola, so 2
// to a polynomial in a has all digits where 1 + erf has lost them. 6.5e-5 off for f16 (to a = 6, where the result is
// 0), 9.3e-4 for bf16 (to 13.7). Steps of 8 bits have one size everywhere, so that no digits are needed where the
// result is small: the distance itself is least then, 5.2e-8 and what f32 rounds, 8.3e-8 below 0 and an ulp above. That
// is how far the steps of f32 are off, too, which lose as much in 1 + erf. Of -inf it is 0, the limit.
template <class Half>
DEVICE float gelu_for(float x) {
  constexpr bool FEW = is_same<Half, bf16>;  // few digits, but a long way down
  constexpr bool FIXED = is_same<Half, i8>;
  const float a = ::fminf(::fabsf(x), FEW ? 13.7f : 6.0f);
  float p;
  if constexpr (FIXED) {
    p = __fmaf_rn(a, 0x1.159a30p-15f, -0x1.934adep-11f);
    p = __fmaf_rn(p, a, 0x1.08c9f4p-7f);
    p = __fmaf_rn(p, a, -0x1.b58d4cp-5f);
    p = __fmaf_rn(p, a, -0x1.d5c80ep-2f);
    p = __fmaf_rn(p, a, -0x1.26b528p0f);
    p = __fmaf_rn(p, a, -0x1.ffff18p-1f);
  } else if constexpr (FEW) {
    p = __fmaf_rn(a, -0x1.2db43ep-22f, 0x1.0f4790p-16f);
    p = __fmaf_rn(p, a, -0x1.9a05e0p-12f);
    p = __fmaf_rn(p, a, 0x1.56e324p-8f);
    p = __fmaf_rn(p, a, -0x1.64360cp-5f);
    p = __fmaf_rn(p, a, -0x1.e61f84p-2f);
    p = __fmaf_rn(p, a, -0x1.244484p0f);
    p = __fmaf_rn(p, a, 24.0f - 0x1.003c90p0f);
  } else {
    p = __fmaf_rn(a, 0x1.81b2cep-16f, -0x1.4062e8p-11f);
    p = __fmaf_rn(p, a, 0x1.d79044p-8f);
    p = __fmaf_rn(p, a, -0x1.a34ef4p-5f);
    p = __fmaf_rn(p, a, -0x1.d857bep-2f);
    p = __fmaf_rn(p, a, -0x1.2671dp0f);
    p = __fmaf_rn(p, a, -0x1.00043ep0f);
  }
  const float tail = exp2_flushed(p) * (FEW ? kLower : 1.0f);
  return __fmaf_rn(-a, tail, max_nan(x, 0.0f));
}

// x (1 + tanh(u)) / 2 = x / (1 + e^(-2u)) with u = sqrt(2/pi) (x + 0.044715 x^3).
template <class Half>
DEVICE float gelu_tanh_for(float x) {
  constexpr float first = -2 * 0x1.988454p-1f * kLog2E, third = first * 0.044715f;
  const float w = __fmaf_rn(__fmaf_rn(x * x, third, first), x, -24.0f);
  return x * (reciprocal_fast(kLower + exp2_flushed(w)) * kLower);
}

}  // namespace op
