// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic on sizes that came from a file: overflow is an error, never a wrapped number.
#pragma once
#include <cstdint>

#include "base/error.h"

namespace temper {

template <class T>
T checked_add(T a, T b) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) fail(ErrorKind::bad_file, "a size overflows 64 bits (", a, " + ", b, ")");
  return result;
}
template <class T>
T checked_mul(T a, T b) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) fail(ErrorKind::bad_file, "a size overflows 64 bits (", a, " * ", b, ")");
  return result;
}
template <class T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace temper
