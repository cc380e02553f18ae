// SPDX-License-Identifier: Apache-2.0
// Steps on every dtype but f32 -> f32. Integers compute in their own width: wrapping arithmetic gives the same bits as
// the reference's 64-bit arithmetic; where it would not (division, powers, shifts), the code widens as the reference
// does.
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/pointwise_loops.h"

namespace temper {

namespace {

template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class W>
W divide(W a, W b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<W>)
    if (b == -1) return W(0 - uint64_t(a));
  return a / b;
}
template <class W>
W remainder(W a, W b, bool sign_of_divisor) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<W>)
    if (b == -1) return 0;
  const W r = a % b;
  return sign_of_divisor && r != 0 && (r < 0) != (b < 0) ? W(r + b) : r;
}
template <class W>
W power(W a, W b) {
  if constexpr (std::is_signed_v<W>)
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = uint64_t(a);
  for (uint64_t e = uint64_t(b); e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return W(result);
}
template <class T>
T shift(T a, T b, bool left) {
  const uint64_t by = uint64_t(Wide<T>(b));
  return by >= sizeof(T) * 8 ? T(0) : left ? T(uint64_t(a) << by) : T(a >> by);
}

// Steps whose bits do not depend on the sign of the type: T is signed.
template <class T>
StepFn find_wrapping(Scalar op) {
  using U = Wrapping<T>;
  switch (op) {
    case Scalar::add: return TEMPER_BINARY(T, T, T(U(x) + U(y)));
    case Scalar::sub: return TEMPER_BINARY(T, T, T(U(x) - U(y)));
    case Scalar::mul: return TEMPER_BINARY(T, T, T(U(x) * U(y)));
    case Scalar::bit_and: return TEMPER_BINARY(T, T, T(x & y));
    case Scalar::bit_or: return TEMPER_BINARY(T, T, T(x | y));
    case Scalar::bit_xor: return TEMPER_BINARY(T, T, T(x ^ y));
    case Scalar::neg: return TEMPER_UNARY(T, T, T(U(0) - U(x)));
    case Scalar::bit_not: return TEMPER_UNARY(T, T, T(~U(x)));
    default: return nullptr;
  }
}

template <class T>
StepFn find_int(Scalar op) {
  using U = Wrapping<T>;
  using W = Wide<T>;
  if (StepFn step = find_wrapping<std::make_signed_t<T>>(op)) return step;
  switch (op) {
    case Scalar::div: return TEMPER_BINARY_CALLS(T, T(divide(W(x), W(y))));
    case Scalar::mod: return TEMPER_BINARY_CALLS(T, T(remainder(W(x), W(y), true)));
    case Scalar::fmod: return TEMPER_BINARY_CALLS(T, T(remainder(W(x), W(y), false)));
    case Scalar::pow: return TEMPER_BINARY_CALLS(T, T(power(W(x), W(y))));
    case Scalar::min: return TEMPER_BINARY(T, T, x < y ? x : y);
    case Scalar::max: return TEMPER_BINARY(T, T, x > y ? x : y);
    case Scalar::shift_left: return TEMPER_BINARY(T, T, shift(x, y, true));
    case Scalar::shift_right: return TEMPER_BINARY(T, T, shift(x, y, false));
    case Scalar::abs: return TEMPER_UNARY(T, T, x < 0 ? T(U(0) - U(x)) : x);
    case Scalar::sign: return TEMPER_UNARY(T, T, x > 0 ? T(1) : x < 0 ? T(-1) : T(0));
    case Scalar::relu: return TEMPER_UNARY(T, T, x < 0 ? T(0) : x);
    default: return nullptr;
  }
}

StepFn find_f64(Scalar op) {
  using F = double;
  constexpr F nan = std::numeric_limits<F>::quiet_NaN();
  switch (op) {
    case Scalar::add: return TEMPER_BINARY(F, F, x + y);
    case Scalar::sub: return TEMPER_BINARY(F, F, x - y);
    case Scalar::mul: return TEMPER_BINARY(F, F, x * y);
    case Scalar::div: return TEMPER_BINARY(F, F, x / y);
    case Scalar::min: return TEMPER_BINARY(F, F, x != x || y != y ? nan : x < y ? x : y);
    case Scalar::max: return TEMPER_BINARY(F, F, x != x || y != y ? nan : x > y ? x : y);
    case Scalar::neg: return TEMPER_UNARY(F, F, -x);
    case Scalar::abs: return TEMPER_UNARY(F, F, std::fabs(x));
    case Scalar::sign: return TEMPER_UNARY(F, F, x > 0 ? 1. : x < 0 ? -1. : x);
    case Scalar::floor: return TEMPER_UNARY(F, F, std::floor(x));
    case Scalar::ceil: return TEMPER_UNARY(F, F, std::ceil(x));
    case Scalar::round: return TEMPER_UNARY(F, F, std::nearbyint(x));
    case Scalar::sqrt: return TEMPER_UNARY(F, F, std::sqrt(x));
    case Scalar::reciprocal: return TEMPER_UNARY(F, F, 1 / x);
    case Scalar::exp: return TEMPER_UNARY_CALLS(F, std::exp(x));
    case Scalar::log: return TEMPER_UNARY_CALLS(F, std::log(x));
    case Scalar::erf: return TEMPER_UNARY_CALLS(F, std::erf(x));
    case Scalar::sigmoid: return TEMPER_UNARY_CALLS(F, 1 / (1 + std::exp(-x)));
    case Scalar::tanh: return TEMPER_UNARY_CALLS(F, std::tanh(x));
    case Scalar::relu: return TEMPER_UNARY(F, F, x < 0 ? 0. : x);
    case Scalar::sin: return TEMPER_UNARY_CALLS(F, std::sin(x));
    case Scalar::cos: return TEMPER_UNARY_CALLS(F, std::cos(x));
    default: return find_call<F>(op);
  }
}

template <class T>
StepFn find_test(Scalar op) {
  switch (op) {
    case Scalar::equal: return TEMPER_BINARY(T, bool, x == y);
    case Scalar::less: return TEMPER_BINARY(T, bool, x < y);
    case Scalar::less_equal: return TEMPER_BINARY(T, bool, x <= y);
    case Scalar::is_nan:
      if constexpr (std::is_floating_point_v<T>) return TEMPER_UNARY(T, bool, x != x);
      break;
    case Scalar::is_inf:
      if constexpr (std::is_floating_point_v<T>)
        return TEMPER_UNARY(T, bool,
                            x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity());
      break;
    default: break;
  }
  return nullptr;
}

StepFn find_logical(Scalar op) {
  switch (op) {
    case Scalar::logical_and: return TEMPER_BINARY(bool, bool, x&& y);
    case Scalar::logical_or: return TEMPER_BINARY(bool, bool, x || y);
    case Scalar::logical_xor: return TEMPER_BINARY(bool, bool, x != y);
    case Scalar::logical_not: return TEMPER_UNARY(bool, bool, !x);
    default: return nullptr;
  }
}

template <class T>
void where_step(const StepArgs& s) {
  const uint8_t* cond = static_cast<const uint8_t*>(s.a);
  const T *b = static_cast<const T*>(s.b), *c = static_cast<const T*>(s.c);
  T* out = static_cast<T*>(s.out);
  const int64_t n = s.n;
  if (s.a_uniform) {
    const bool first = *cond;
    const StepArgs copy{s.out, first ? s.b : s.c, nullptr, nullptr, n, first ? s.b_uniform : s.c_uniform, false, false};
    return unary_loop<T, T, decltype([](T x) { return x; })>(copy);
  }
  const T y = *b, z = *c;
  if (s.b_uniform && s.c_uniform) {
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = cond[i] ? y : z;
    });
  } else if (s.b_uniform) {
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = cond[i] ? y : c[i];
    });
  } else if (s.c_uniform) {
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = cond[i] ? b[i] : z;
    });
  } else {
    vectorised([=] {
      TEMPER_NO_ALIAS
      for (int64_t i = 0; i < n; ++i) out[i] = cond[i] ? b[i] : c[i];
    });
  }
}

// Converts from float: truncates and saturates, NaN becomes 0. The bounds compare as floats: rounded up, they lie
// outside.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) return x != 0;
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    if constexpr (sizeof(To) < 4) {  // clamped, it always fits: no branch
      const From clamped = x > From(low) ? x < From(high) ? x : From(high) : From(low);
      const To result = To(int32_t(clamped));
      return x != x ? To(0) : result;
    } else {
      return x != x ? To(0) : x <= From(low) ? low : x >= From(high) ? high : To(x);
    }
  } else return static_cast<To>(x);
}

template <class T>
constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class F>
decltype(auto) visit_held(DType dtype, F&& f) {
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) return f.template operator()<float>();
    else return f.template operator()<T>();
  });
}

}  // namespace

template <class A, class B>
StepFn loop_of_cast() {
  return TEMPER_UNARY(A, B, (convert<B, A>(x)));
}

// The bits of an integer that is cast to another one depend on the sign of neither, but of the narrower of two. A bool
// is a byte of 0 or 1: of bools GCC makes no vectors.
template <class A, class B>
StepFn cast_step() {
  if constexpr (std::is_same_v<A, bool>) return cast_step<uint8_t, B>();
  else if constexpr (is_number<A> && is_number<B>)
    return loop_of_cast<std::conditional_t<sizeof(B) <= sizeof(A), std::make_signed_t<A>, A>, std::make_signed_t<B>>();
  else return loop_of_cast<A, B>();
}

StepFn find_cast(DType from, DType to) {
  return visit_held(from,
                    [&]<class A>() { return visit_held(to, [&]<class B>() -> StepFn { return cast_step<A, B>(); }); });
}

StepFn find_step(Scalar op, DType from, DType to) {
  if (op == Scalar::cast) return find_cast(from, to);
  if (op == Scalar::where) {
    switch (size_of(to)) {
      case 1: return &where_step<uint8_t>;
      case 2: return &where_step<uint16_t>;
      case 4: return &where_step<uint32_t>;
      default: return &where_step<uint64_t>;
    }
  }
  if (to == DType::boolean) {
    if (StepFn logical = find_logical(op)) return from == DType::boolean ? logical : nullptr;
    return visit_held(from, [&]<class T>() { return find_test<T>(op); });
  }
  if (from != to) return nullptr;
  if (from == DType::f32) return find_step_f32(op);
  if (from == DType::f64) return find_f64(op);
  return visit_held(from, [&]<class T>() -> StepFn {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return find_int<T>(op);
    else return nullptr;
  });
}

}  // namespace temper
