// SPDX-License-Identifier: Apache-2.0
// The slices of a tensor along an axis, and their order: element by element, NaN behind all numbers, and both zeros
// equal. Generated before this text: Element.
#pragma once
#include "backends/cuda/support/memory.cuh"

struct Slices {
  u32 n;             // slices
  u32 outer, inner;  // elements of a slice: `outer` runs of `inner` neighbours
};

// -1, 0 or 1.
DEVICE int compare_elements(Element left_bits, Element right_bits) {
  const Held<Element> left = hold(left_bits), right = hold(right_bits);
  if (left < right) return -1;
  if (right < left) return 1;
  if constexpr (is_float<Held<Element>>)
    if ((left != left) != (right != right)) return left != left ? 1 : -1;
  return 0;
}
DEVICE int compare_slices(const Element* x, const Slices& s, u32 a, u32 b) {
  for (u32 o = 0; o < s.outer; ++o)
    for (u32 i = 0; i < s.inner; ++i)
      if (const int order = compare_elements(x[(u64(o) * s.n + a) * s.inner + i], x[(u64(o) * s.n + b) * s.inner + i]))
        return order;
  return 0;
}
