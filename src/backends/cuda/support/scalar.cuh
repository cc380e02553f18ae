// SPDX-License-Identifier: Apache-2.0
// Scalars of a pointwise program (graph/program.h) with the reference's results: integers wrap, casts saturate, fp16,
// bf16 and f8e4m3fn are held as float and rounded after each step. The names in `op` are those of the program's steps.
#pragma once

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct f8e4m3fn {
  u8 bits;
};

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__

#include "backends/cuda/support/ptx.cuh"

DEVICE f16 to_f16(float x) { return {f16_bits(x)}; }
DEVICE bf16 to_bf16(float x) { return {bf16_bits(x)}; }
DEVICE float from(f16 x) { return float_of_f16(x.bits); }
DEVICE float from(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }

// The codes of two numbers in f8e4m3fn, the second's above the first's: the nearest, half to even, at most 448; and the
// number of a code. Before sm_89 without instructions for them, as base/small_types.h has it.
#if __CUDA_ARCH__ < 890
DEVICE u32 code_of_f8e4m3fn(float x) {
  const u32 bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
  // Below 2^-6 the codes count 2^-9: those are the last bits of floats from 2^14 on.
  const u32 small = __float_as_uint(__uint_as_float(magnitude) + 0x1p14f) - 0x46800000u,
            normal = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (120u << 3);
  return sign | (magnitude > 0x7f800000u    ? 0x7fu
                 : magnitude >= 0x43e80000u ? 0x7eu
                 : magnitude < 0x3c800000u  ? small
                                            : normal);
}
DEVICE u32 codes_of_f8e4m3fn(float low, float high) { return code_of_f8e4m3fn(low) | code_of_f8e4m3fn(high) << 8; }
DEVICE float float_of_f8e4m3fn(u8 code) {
  const u32 magnitude = code & 0x7fu, sign = u32(code & 0x80u) << 24;
  if (magnitude == 0x7f) return __uint_as_float(0x7fffffffu);
  const float small = float(i32(magnitude)) * 0x1p-9f;
  return __uint_as_float(sign | (magnitude < 8 ? __float_as_uint(small) : (magnitude << 20) + (120u << 23)));
}
#endif
DEVICE f8e4m3fn to_f8e4m3fn(float x) { return {u8(codes_of_f8e4m3fn(x, 0.0f))}; }
DEVICE float from(f8e4m3fn x) { return float_of_f8e4m3fn(x.bits); }

// How a value in memory is held in a register, and back.
template <class T>
struct HeldAs {
  using type = T;
};
template <>
struct HeldAs<f16> {
  using type = float;
};
template <>
struct HeldAs<bf16> {
  using type = float;
};
template <>
struct HeldAs<f8e4m3fn> {
  using type = float;
};
template <class T>
using Held = typename HeldAs<T>::type;
template <class T>
DEVICE T hold(T x) {
  return x;
}
DEVICE float hold(f16 x) { return from(x); }
DEVICE float hold(bf16 x) { return from(x); }
DEVICE float hold(f8e4m3fn x) { return from(x); }
template <class T>
DEVICE T store_as(Held<T> x) {
  return x;
}
template <>
__device__ __forceinline__ f16 store_as<f16>(float x) {
  return to_f16(x);
}
template <>
__device__ __forceinline__ bf16 store_as<bf16>(float x) {
  return to_bf16(x);
}
template <>
__device__ __forceinline__ f8e4m3fn store_as<f8e4m3fn>(float x) {
  return to_f8e4m3fn(x);
}

// The result of an epilogue: held, except that 8-bit results are integers, which saturate when they are stored
// (store_results).
template <class T>
struct FinishedAs {
  using type = Held<T>;
};
template <>
struct FinishedAs<i8> {
  using type = i32;
};
template <>
struct FinishedAs<u8> {
  using type = i32;
};
template <class T>
using Finished = typename FinishedAs<T>::type;

template <class T>
constexpr bool is_float = false;
template <>
constexpr bool is_float<float> = true;
template <>
constexpr bool is_float<double> = true;
template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;
template <class T>
constexpr bool is_signed = T(-1) < T(0);
template <class T>
struct Unsigned {
  using type = u32;
};  // wide enough to wrap narrower types in
template <>
struct Unsigned<i64> {
  using type = u64;
};
template <>
struct Unsigned<u64> {
  using type = u64;
};
template <class T>
struct Limits;
template <>
struct Limits<i8> {
  static constexpr int low = -128, high = 127;
};
template <>
struct Limits<u8> {
  static constexpr int low = 0, high = 255;
};
template <>
struct Limits<i16> {
  static constexpr int low = -32768, high = 32767;
};
template <>
struct Limits<u16> {
  static constexpr int low = 0, high = 65535;
};

namespace op {

DEVICE float round_f16(float x) { return from(to_f16(x)); }
DEVICE float round_bf16(float x) { return from(to_bf16(x)); }
DEVICE float round_f8e4m3fn(float x) { return from(to_f8e4m3fn(x)); }

template <class T>
DEVICE T add(T a, T b) {
  if constexpr (is_float<T>) return a + b;
  else return T(typename Unsigned<T>::type(a) + typename Unsigned<T>::type(b));
}
template <class T>
DEVICE T sub(T a, T b) {
  if constexpr (is_float<T>) return a - b;
  else return T(typename Unsigned<T>::type(a) - typename Unsigned<T>::type(b));
}
template <class T>
DEVICE T mul(T a, T b) {
  if constexpr (is_float<T>) return a * b;
  else return T(typename Unsigned<T>::type(a) * typename Unsigned<T>::type(b));
}
template <class T>
DEVICE T neg(T x) {
  if constexpr (is_float<T>) return -x;
  else return T(typename Unsigned<T>::type(0) - typename Unsigned<T>::type(x));
}
template <class T>
DEVICE T div(T a, T b) {
  if constexpr (is_float<T>) return a / b;
  else {
    if (b == 0) return 0;
    if constexpr (is_signed<T>)
      if (b == T(-1)) return neg(a);
    return T(a / b);
  }
}
DEVICE float remainder_of(float a, float b) { return ::fmodf(a, b); }
DEVICE double remainder_of(double a, double b) { return ::fmod(a, b); }
template <class T>
DEVICE T fmod(T a, T b) {
  if constexpr (is_float<T>) return remainder_of(a, b);
  else {
    if (b == 0) return 0;
    if constexpr (is_signed<T>)
      if (b == T(-1)) return 0;
    return T(a % b);
  }
}
template <class T>
DEVICE T mod(T a, T b) {
  const T r = op::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}
template <class T>
DEVICE T not_a_number(T a, T b) {
  return a + b;
}
template <class T>
DEVICE T min(T a, T b) {
  if constexpr (is_float<T>)
    if (a != a || b != b) return a + b;
  return a < b ? a : b;
}
template <class T>
DEVICE T max(T a, T b) {
  if constexpr (is_float<T>)
    if (a != a || b != b) return a + b;
  return a > b ? a : b;
}
DEVICE float pow(float a, float b) { return ::powf(a, b); }
DEVICE double pow(double a, double b) { return ::pow(a, b); }
template <class T>
DEVICE T pow(T a, T b) {
  if constexpr (is_signed<T>)
    if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
  u64 result = 1, base = u64(i64(a));
  for (u64 e = u64(b); e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return T(result);
}
template <class T>
DEVICE T bit_and(T a, T b) {
  return T(a & b);
}
template <class T>
DEVICE T bit_or(T a, T b) {
  return T(a | b);
}
template <class T>
DEVICE T bit_xor(T a, T b) {
  return T(a ^ b);
}
template <class T>
DEVICE T bit_not(T x) {
  return T(~x);
}
template <class T>
DEVICE T shift_left(T a, T by) {
  return u64(i64(by)) >= sizeof(T) * 8 ? T(0) : T(u64(a) << by);
}
template <class T>
DEVICE T shift_right(T a, T by) {
  return u64(i64(by)) >= sizeof(T) * 8 ? T(0) : T(a >> by);
}

DEVICE float abs(float x) { return ::fabsf(x); }
DEVICE double abs(double x) { return ::fabs(x); }
template <class T>
DEVICE T abs(T x) {
  return x < 0 ? neg(x) : x;
}
template <class T>
DEVICE T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
}
template <class T>
DEVICE T relu(T x) {
  return x < 0 ? T(0) : x;
}
DEVICE float relu(float x) { return max_nan(x, 0.0f); }  // one instruction; -0 may become 0
template <class T>
DEVICE T reciprocal(T x) {
  return T(1) / x;
}

#define TEMPER_UNARY(name, single, wide)             \
  DEVICE float name(float x) { return ::single(x); } \
  DEVICE double name(double x) { return ::wide(x); }
TEMPER_UNARY(floor, floorf, floor)
TEMPER_UNARY(ceil, ceilf, ceil)
TEMPER_UNARY(round, rintf, rint)
TEMPER_UNARY(sqrt, sqrtf, sqrt)
TEMPER_UNARY(exp, expf, exp)
TEMPER_UNARY(log, logf, log)
TEMPER_UNARY(erf, erff, erf)
TEMPER_UNARY(tanh, tanhf, tanh)
TEMPER_UNARY(sin, sinf, sin)
TEMPER_UNARY(cos, cosf, cos)
TEMPER_UNARY(tan, tanf, tan)
TEMPER_UNARY(asin, asinf, asin)
TEMPER_UNARY(acos, acosf, acos)
TEMPER_UNARY(atan, atanf, atan)
TEMPER_UNARY(sinh, sinhf, sinh)
TEMPER_UNARY(cosh, coshf, cosh)
TEMPER_UNARY(asinh, asinhf, asinh)
TEMPER_UNARY(acosh, acoshf, acosh)
TEMPER_UNARY(atanh, atanhf, atanh)
#undef TEMPER_UNARY
template <class T>
DEVICE T sigmoid(T x) {
  return T(1) / (T(1) + op::exp(-x));
}

template <class T>
DEVICE bool equal(T a, T b) {
  return a == b;
}
template <class T>
DEVICE bool less(T a, T b) {
  return a < b;
}
template <class T>
DEVICE bool less_equal(T a, T b) {
  return a <= b;
}
DEVICE bool logical_and(bool a, bool b) { return a && b; }
DEVICE bool logical_or(bool a, bool b) { return a || b; }
DEVICE bool logical_xor(bool a, bool b) { return a != b; }
DEVICE bool logical_not(bool a) { return !a; }
template <class T>
DEVICE bool is_nan(T x) {
  return x != x;
}
DEVICE bool is_inf(float x) { return ::fabsf(x) == __int_as_float(0x7f800000); }
DEVICE bool is_inf(double x) { return ::fabs(x) == __longlong_as_double(0x7ff0000000000000ll); }
template <class T>
DEVICE T where(bool condition, T a, T b) {
  return condition ? a : b;
}
DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// Float to integer truncates and saturates, NaN becomes 0: what the conversion instructions do for 32 bits; wider ones
// need help with NaN, narrower ones are clamped.
DEVICE int saturate_i32(float x) { return __float2int_rz(x); }
DEVICE int saturate_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
DEVICE u32 saturate_u32(float x) { return __float2uint_rz(x); }
DEVICE u32 saturate_u32(double x) { return x != x ? 0u : __double2uint_rz(x); }
DEVICE i64 saturate_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
DEVICE i64 saturate_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
DEVICE u64 saturate_u64(float x) { return x != x ? 0 : __float2ull_rz(x); }
DEVICE u64 saturate_u64(double x) { return x != x ? 0 : __double2ull_rz(x); }

// x / s for what is rounded to 8 bits next, with r = 1 / s, rounded, of an s that is neither very large nor very small:
// what a division gives, by three steps instead of a subroutine (Markstein 1990; "Accelerating correctly rounded
// floating-point division when the divisor is known in advance", Brisebarre, Muller and Raina 2004). Where it could not
// be that, 8 bits are saturated, or zero.
DEVICE float quotient_for_bytes(float x, float s, float r) {
  const float q = x * r;
  const float corrected = __fmaf_rn(__fmaf_rn(-q, s, x), r, q);
  return ::fabsf(q) < 1024.0f ? corrected : q;  // of an infinite q the correction is none
}
// The same for f8e4m3fn, which tells zeros of both signs apart: the correction makes both +0.
DEVICE float quotient_for_f8e4m3fn(float x, float s, float r) {
  return ::copysignf(quotient_for_bytes(x, s, r), x * r);
}
// round(x) + zero for what is cast to 8 bits next; `zero` is whole, up to 255 either way. Up to 2^22, the first sum
// lies where floats are whole numbers, and keeps their parity: ties go to even. Beyond, 8 bits are saturated.
DEVICE float rounded_plus(float x, float zero) {
  constexpr float whole = 0x1.8p23f;
  return (x + whole) - (whole - zero);
}
// cast<To>(round(x)) for To of 8 bits.
template <class To>
DEVICE To cast_rounded(float x) {
  if constexpr (is_signed<To>) return To(rounded_to_i8(x));
  else return To(rounded_to_u8(x));
}
// cast<To>(round(relu(x))): NaN and -0 become 0 there, so that it does not matter what relu makes of them.
template <class To>
DEVICE To cast_rounded_relu(float x) {
  return cast_rounded<To>(fmaxf(x, 0.0f));
}

// The same where they are stored at once: packing saturates them (saturated_i8x4). ptxas makes one F2IP of two of
// these, the packing and the maximum, on the ALU pipe; F2I, which a conversion to 8 or 16 bits becomes, runs on the XU
// pipe at a quarter of its rate. It finds the maximum only in front of the rounding, in floats.
DEVICE i32 finish_rounded(float x) { return rounded_to_i32(x); }
DEVICE i32 finish_rounded_relu(float x) { return rounded_to_i32(fmaxf(x, 0.0f)); }

template <class To, class T>
DEVICE To cast(T x) {
  if constexpr (is_float<T> && !is_float<To>) {
    if constexpr (sizeof(To) == 8) {
      if constexpr (is_signed<To>) return saturate_i64(x);
      else return saturate_u64(x);
    } else if constexpr (sizeof(To) == 4) {
      if constexpr (is_signed<To>) return saturate_i32(x);
      else return saturate_u32(x);
    } else {
      const int wide = saturate_i32(x);
      return To(wide < Limits<To>::low ? Limits<To>::low : wide > Limits<To>::high ? Limits<To>::high : wide);
    }
  } else {
    return To(x);
  }
}
template <class T>
DEVICE bool cast_bool(T x) {
  return x != 0;
}

}  // namespace op

#include "backends/cuda/support/half_functions.cuh"
