// SPDX-License-Identifier: Apache-2.0
// The position of the best element of a row: NaN beats numbers, ties go to the first or the last. That is an order, so
// it does not matter how threads share a row. Generated before this text: MAX, LAST, and what rows.cuh needs; rows run
// along one axis.
#include "backends/cuda/rows/rows.cuh"

using H = Held<Input>;
struct alignas(8) Best {
  i64 at;  // -1: none yet
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

extern "C" __global__ void __launch_bounds__(256) arg_reduce(const Input* in, Output* out, const RowParameters p) {
  const Row row = this_row(p);
  Best best{-1, H(0)};
  const i64 stride = p.reduced.strides[0][0];
  each_element(p, row,
               [&](i64 at, i64) { best = better_of(best, Best{stride ? (at - row.in) / stride : 0, hold(in[at])}); });
  best = across_row(best, [](const Best& a, const Best& b) { return better_of(a, b); });
  if (row.active && row.lane == 0) out[row.out] = best.at;
}
