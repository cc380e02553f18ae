// SPDX-License-Identifier: Apache-2.0
// The position of the best element of a row (best.cuh). Generated before this text: MAX, LAST, and what rows.cuh needs;
// rows run along one axis.
using Position = i64;
#include "backends/cuda/arg_reduce/best.cuh"
#include "backends/cuda/rows/rows.cuh"

extern "C" __global__ void __launch_bounds__(256) arg_reduce(const Input* in, Output* out, const RowParameters p) {
  const Row row = this_row(p);
  Best best{-1, H(0)};
  const i64 stride = p.reduced.strides[0][0];
  each_element(p, row,
               [&](i64 at, i64) { best = better_of(best, Best{stride ? (at - row.in) / stride : 0, hold(in[at])}); });
  best = across_row(best, [](const Best& a, const Best& b) { return better_of(a, b); });
  if (row.active && row.lane == 0) out[row.out] = best.at;
}
