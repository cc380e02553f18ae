// SPDX-License-Identifier: Apache-2.0
// The order of topk as an order of unsigned numbers, smallest first: NaN counts as larger than any number, and both
// zeros are equal. Generated before this text: Element, LARGEST.
#pragma once
#include "backends/cuda/support/memory.cuh"

template <class T>
struct KeyOf {
  using type = u32;
};
template <>
struct KeyOf<i64> {
  using type = u64;
};
template <>
struct KeyOf<u64> {
  using type = u64;
};
template <>
struct KeyOf<f64> {
  using type = u64;
};
using Key = KeyOf<Element>::type;

DEVICE Key ascending(Held<Element> x) {
  constexpr Key top = Key(1) << (sizeof(Key) * 8 - 1);
  if constexpr (is_float<Held<Element>>) {
    if (x != x) return Key(-1);
    if (x == 0) return top;
    Key bits;
    if constexpr (sizeof(Key) == 8) bits = Key(__double_as_longlong(x));
    else bits = __float_as_uint(x);
    return bits & top ? Key(~bits) : bits | top;
  } else {
    return is_signed<Held<Element>> ? Key(x) ^ top : Key(x);
  }
}
DEVICE Key key_of(Element x) {
  const Key key = ascending(hold(x));
  return LARGEST ? Key(~key) : key;
}
