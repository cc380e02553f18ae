// SPDX-License-Identifier: Apache-2.0
// The steps of pointwise programs on f32, from vectorised loops.
#include <cmath>

#include "backends/cpu/half.h"
#include "backends/cpu/pointwise_loops.h"
#include "backends/cpu/vmath.h"
#include "base/small_types.h"

namespace temper {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// vmath reduces arguments below 2^30 only; tiles with larger ones (or NaN) go through the C library.
template <int quarter>
void sine_step(const StepArgs& s) {
  const float* a = static_cast<const float*>(s.a);
  const int64_t read = s.a_uniform ? 1 : s.n;
  int large = 0;
  for (int64_t i = 0; i < read; ++i) large |= !(vmath::magnitude(a[i]) < vmath::kTrigLimit);
  if (!large) return unary_loop<float, float, decltype([](float x) { return vmath::sin_or_cos(x, quarter); })>(s);
  unary_calls<float, decltype([](float x) { return float(quarter ? std::cos(double(x)) : std::sin(double(x))); })>(s);
}

// One rounding on every instruction set: without FMA instructions the C library's own computes it exactly.
void fma_step(const StepArgs& s) {
  const float *a = static_cast<const float*>(s.a), *b = static_cast<const float*>(s.b),
              *c = static_cast<const float*>(s.c);
  float* out = static_cast<float*>(s.out);
  const int64_t n = s.n;
  if (!s.a_uniform && s.b_uniform && !s.c_uniform) {  // a residual with one scale
    const float y = *b;
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = __builtin_fmaf(a[i], y, c[i]);
    });
  } else if (!s.a_uniform && !s.b_uniform && !s.c_uniform) {
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = __builtin_fmaf(a[i], b[i], c[i]);
    });
  } else {
    const int64_t da = !s.a_uniform, db = !s.b_uniform, dc = !s.c_uniform;
    for (int64_t i = 0; i < n; ++i) out[i] = __builtin_fmaf(a[i * da], b[i * db], c[i * dc]);
  }
}

}  // namespace

StepFn find_step_f32(Scalar op) {
  using F = float;
  switch (op) {
    case Scalar::add: return TEMPER_BINARY(F, F, x + y);
    case Scalar::sub: return TEMPER_BINARY(F, F, x - y);
    case Scalar::mul: return TEMPER_BINARY(F, F, x * y);
    case Scalar::div: return TEMPER_BINARY(F, F, x / y);
    case Scalar::min: return TEMPER_BINARY(F, F, x != x || y != y ? kNan : x < y ? x : y);
    case Scalar::max: return TEMPER_BINARY(F, F, x != x || y != y ? kNan : x > y ? x : y);
    case Scalar::neg: return TEMPER_UNARY(F, F, -x);
    case Scalar::abs: return TEMPER_UNARY(F, F, vmath::magnitude(x));
    case Scalar::sign: return TEMPER_UNARY(F, F, x > 0 ? 1.f : x < 0 ? -1.f : x);
    case Scalar::floor: return TEMPER_UNARY(F, F, __builtin_floorf(x));
    case Scalar::ceil: return TEMPER_UNARY(F, F, __builtin_ceilf(x));
    case Scalar::round: return TEMPER_UNARY(F, F, __builtin_nearbyintf(x));
    case Scalar::sqrt: return TEMPER_UNARY(F, F, __builtin_sqrtf(x));
    case Scalar::reciprocal: return TEMPER_UNARY(F, F, 1.f / x);
    case Scalar::exp: return TEMPER_UNARY(F, F, vmath::exp(x));
    case Scalar::log: return TEMPER_UNARY(F, F, vmath::log(x));
    case Scalar::erf: return TEMPER_UNARY(F, F, vmath::erf(x));
    case Scalar::sigmoid: return TEMPER_UNARY(F, F, vmath::sigmoid(x));
    case Scalar::tanh: return TEMPER_UNARY(F, F, vmath::tanh(x));
    case Scalar::relu: return TEMPER_UNARY(F, F, x < 0 ? 0.f : x);
    case Scalar::fma: return &fma_step;
    case Scalar::sin: return &sine_step<0>;
    case Scalar::cos: return &sine_step<1>;
    default: return find_call<F>(op);
  }
}

StepFn find_gelu() { return TEMPER_UNARY(float, float, vmath::gelu(x)); }

StepFn find_pow(DType dtype, double exponent) {
  using F = float;
  if (dtype != DType::f32) return nullptr;
  // x^0.5 differs from sqrt(x) at -0 and -infinity.
  if (exponent == 0.5)
    return TEMPER_UNARY(F, F, x == -std::numeric_limits<F>::infinity() ? -x : __builtin_sqrtf(x + 0.f));
  if (exponent == 1) return TEMPER_UNARY(F, F, x);
  if (exponent == 2) return TEMPER_UNARY(F, F, x * x);
  if (exponent == 3) return TEMPER_UNARY(F, F, x * x * x);
  if (exponent == -1) return TEMPER_UNARY(F, F, 1.f / x);
  return nullptr;
}

namespace {

// Branch-free forms of the conversions in base/dtype.h, bit for bit the same; those of f16 are in half.h.
inline float bfloat_to_float(uint16_t b) { return vmath::as_float(uint32_t(b) << 16); }
inline uint16_t float_to_bfloat(float value) {
  const uint32_t bits = vmath::as_bits(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

}  // namespace

StepFn find_load(DType dtype) {
  if (dtype == DType::f8e4m3fn) return TEMPER_UNARY(uint8_t, float, e4m3_to_float(x));
  return dtype == DType::f16 ? TEMPER_UNARY(uint16_t, float, half_to_float(std::bit_cast<Half>(x)))
                             : TEMPER_UNARY(uint16_t, float, bfloat_to_float(x));
}
StepFn find_store(DType dtype) {
  if (dtype == DType::f8e4m3fn) return TEMPER_UNARY(float, uint8_t, float_to_e4m3(x));
  return dtype == DType::f16 ? TEMPER_UNARY(float, uint16_t, float_to_half(x).bits)
                             : TEMPER_UNARY(float, uint16_t, float_to_bfloat(x));
}
StepFn find_rounding(DType dtype) {
  if (dtype == DType::f8e4m3fn) return TEMPER_UNARY(float, float, e4m3_to_float(float_to_e4m3(x)));
  return dtype == DType::f16 ? TEMPER_UNARY(float, float, half_to_float(float_to_half(x)))
                             : TEMPER_UNARY(float, float, bfloat_to_float(float_to_bfloat(x)));
}

}  // namespace temper
