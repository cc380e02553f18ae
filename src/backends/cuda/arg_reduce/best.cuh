// SPDX-License-Identifier: Apache-2.0
// The better of two elements of a row: NaN beats numbers, ties go to the first or the last. That is an order, so it
// does not matter how threads share a row. Generated before this text: Input, Position (i64, or i32 where that holds
// those of a row), MAX, LAST.
#pragma once
#include "backends/cuda/support/memory.cuh"

using H = Held<Input>;
struct Best {
  Position at;  // -1: none yet
  H value;
};

DEVICE Best better_of(const Best& a, const Best& b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  const bool equal = (a_nan && b_nan) || a.value == b.value;
  const bool first = equal            ? (a.at < b.at) != LAST
                     : a_nan != b_nan ? a_nan
                     : MAX            ? a.value > b.value
                                      : a.value < b.value;
  return first ? a : b;
}
