// SPDX-License-Identifier: Apache-2.0
// The loops of pointwise_steps.h over a function object of one element. The output may be an argument's own memory
// (never shifted), which is what ivdep tells the compiler.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise_steps.h"

namespace temper {

// The dtypes that networks compute with get the versions of vectorised(); the rest is compiled once.
template <class T>
constexpr bool kCommon = std::is_same_v<T, float> || std::is_same_v<T, uint16_t> || std::is_same_v<T, int32_t> ||
                         std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t> || std::is_same_v<T, bool>;
template <class T, class R, class Loop>
inline void run_loop(Loop loop) {
  if constexpr ((std::is_same_v<T, float> || std::is_same_v<R, float> || std::is_same_v<T, int32_t>) && kCommon<T> &&
                kCommon<R>)
    vectorised(loop);
  else if constexpr (std::is_same_v<T, int64_t> && std::is_same_v<R, bool>)
    vectorised_by_8(loop);  // indices that are compared: OneHot, Trilu, masks. SSE2 compares no 64 bits.
  else loop();
}

template <class T, class R, class F>
void unary_loop(const StepArgs& s) {
  const T* a = static_cast<const T*>(s.a);
  R* out = static_cast<R*>(s.out);
  const int64_t n = s.n;
  if (s.a_uniform) {
    const R value = F()(*a);
    for (int64_t i = 0; i < n; ++i) out[i] = value;
    return;
  }
  run_loop<T, R>([=] {
    TEMPER_NO_ALIAS
    for (int64_t i = 0; i < n; ++i) out[i] = F()(a[i]);
  });
}

template <class T, class R, class F>
void binary_loop(const StepArgs& s) {
  const T *a = static_cast<const T*>(s.a), *b = static_cast<const T*>(s.b);
  R* out = static_cast<R*>(s.out);
  const int64_t n = s.n;
  if (s.b_uniform) {
    const T y = *b;
    if (s.a_uniform) {
      const R value = F()(*a, y);
      for (int64_t i = 0; i < n; ++i) out[i] = value;
      return;
    }
    run_loop<T, R>([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = F()(a[i], y);
    });
  } else if (s.a_uniform) {
    const T x = *a;
    run_loop<T, R>([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = F()(x, b[i]);
    });
  } else {
    run_loop<T, R>([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = F()(a[i], b[i]);
    });
  }
}

// Functions without a vector form: those of the C library, and what divides or loops over integers. They are compiled
// once, and the vectoriser is asked for nothing.
template <class T, class F>
void unary_calls(const StepArgs& s) {
  const T* a = static_cast<const T*>(s.a);
  T* out = static_cast<T*>(s.out);
  if (s.a_uniform) std::fill_n(out, s.n, F()(*a));
  else
    for (int64_t i = 0; i < s.n; ++i) out[i] = F()(a[i]);
}

template <class T, class F>
void binary_calls(const StepArgs& s) {
  const T *a = static_cast<const T*>(s.a), *b = static_cast<const T*>(s.b);
  T* out = static_cast<T*>(s.out);
  const int64_t da = !s.a_uniform, db = !s.b_uniform;
  if (!da && !db) std::fill_n(out, s.n, F()(*a, *b));
  else
    for (int64_t i = 0; i < s.n; ++i) out[i] = F()(a[i * da], b[i * db]);
}

// Lambdas as types: each is its own function object.
#define TEMPER_UNARY(T, R, expression) &unary_loop<T, R, decltype([](T x) -> R { return expression; })>
#define TEMPER_BINARY(T, R, expression) &binary_loop<T, R, decltype([](T x, T y) -> R { return expression; })>
#define TEMPER_UNARY_CALLS(T, expression) &unary_calls<T, decltype([](T x) -> T { return expression; })>
#define TEMPER_BINARY_CALLS(T, expression) &binary_calls<T, decltype([](T x, T y) -> T { return expression; })>

// The remainder with the divisor's sign.
template <class F>
F modulo(F x, F y) {
  const F r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// The functions that f32 and f64 leave to the C library; null for others.
template <class F>
StepFn find_call(Scalar op) {
  switch (op) {
    case Scalar::pow: return TEMPER_BINARY_CALLS(F, std::pow(x, y));
    case Scalar::fmod: return TEMPER_BINARY_CALLS(F, std::fmod(x, y));
    case Scalar::mod: return TEMPER_BINARY_CALLS(F, modulo(x, y));
    case Scalar::tan: return TEMPER_UNARY_CALLS(F, std::tan(x));
    case Scalar::asin: return TEMPER_UNARY_CALLS(F, std::asin(x));
    case Scalar::acos: return TEMPER_UNARY_CALLS(F, std::acos(x));
    case Scalar::atan: return TEMPER_UNARY_CALLS(F, std::atan(x));
    case Scalar::sinh: return TEMPER_UNARY_CALLS(F, std::sinh(x));
    case Scalar::cosh: return TEMPER_UNARY_CALLS(F, std::cosh(x));
    case Scalar::asinh: return TEMPER_UNARY_CALLS(F, std::asinh(x));
    case Scalar::acosh: return TEMPER_UNARY_CALLS(F, std::acosh(x));
    case Scalar::atanh: return TEMPER_UNARY_CALLS(F, std::atanh(x));
    default: return nullptr;
  }
}

}  // namespace temper
