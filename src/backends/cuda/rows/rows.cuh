// SPDX-License-Identifier: Apache-2.0
// Work along rows: LANES threads (1, 32 or 256) share a row, which is any set of axes of a tensor. Generated before
// this text: LANES, KEPT (axes between rows) and REDUCED (axes within a row), Index, Input, Output.
#pragma once
#include "backends/cuda/rows/row_sums.cuh"

struct RowParameters {
  u64 rows, n;
  double inverse;      // 1 / n
  double number;       // what the op needs beside: epsilon
  Walk<KEPT, 2> kept;  // of the input, of the output
  Walk<REDUCED, 2> reduced;
};

struct Row {
  bool active;
  u64 index;
  u32 lane;
  i64 in, out;  // offsets of its first element
};

// Waits for the previous kernel, too (PDL, Job::overlap).
DEVICE Row this_row(const RowParameters& p) {
  wait_for_inputs();
  Row row;
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  row.index = thread / LANES;
  row.lane = threadIdx.x % LANES;
  row.active = row.index < p.rows;
  i64 at[2];
  walk_offsets<KEPT, 2>(p.kept, row.active ? Index(row.index) : Index(0), at);
  row.in = at[0];
  row.out = at[1];
  return row;
}

// f(offset in the input, offset in the output) for each element of the row that is this thread's.
template <class F>
DEVICE void each_element(const RowParameters& p, const Row& row, F&& f) {
  if (!row.active) return;
  for (u64 j = row.lane; j < p.n; j += LANES) {
    i64 at[2];
    walk_offsets<REDUCED, 2>(p.reduced, Index(j), at);
    f(row.in + at[0], row.out + at[1]);
  }
}

template <class T, class Join>
DEVICE T across_row(T mine, Join&& join) {
  return across_threads<LANES>(mine, join);
}
template <class S>
DEVICE S sum_across_row(const S& mine) {
  return sum_across<LANES>(mine);
}
template <class T>
DEVICE T max_across_row(T mine) {
  return max_across<LANES>(mine);
}
