// SPDX-License-Identifier: Apache-2.0
// Work along rows between two programs: THREADS threads, a power of two, share a row. Where HELD, each holds ITEMS
// vectors of V neighbours of it in registers, so that the row crosses the memory once; else V is 1 and each pass reads
// it again. Generated before this text (row_programs.cc): those constants, BLOCK, ALIGNED (rows begin at multiples of V
// elements), KEPT (axes between rows), REDUCED (axes within a row), OPERANDS (tensors that are walked), Index, Value
// (what is computed with), PARAMETERS and ROW_TENSORS; behind it: read_row() and write_row().
#pragma once
#include "backends/cuda/rows/row_sums.cuh"

struct RowParameters {
  u64 rows, n;
  double inverse;  // 1 / n
  double number;   // what the op needs beside: epsilon
  Walk<KEPT, OPERANDS> kept;
  Walk<REDUCED, OPERANDS> reduced;
};

// How a tensor lies along a row.
constexpr int kRow = 0;      // element after element, as the input of the row does
constexpr int kVector = 1;   // V neighbours lie beside each other
constexpr int kSplat = 2;    // V neighbours are one element
constexpr int kUniform = 3;  // the row is one element
constexpr int kBeside = 4;   // V neighbours lie beside each other, but do not begin where vectors may
constexpr int kEach = 5;     // every element by itself

template <int OPERAND>
DEVICE i64 offset_in_row(const RowParameters& p, i64 j) {
  if constexpr (REDUCED == 0) return 0;
  else if constexpr (REDUCED == 1) return j * p.reduced.strides[OPERAND][0];
  else {
    i64 offsets[OPERANDS];
    walk_offsets<REDUCED, OPERANDS>(p.reduced, Index(j), offsets);
    return offsets[OPERAND];
  }
}

// Elements first..first+V-1 of a row; those that the row does not have are zero. `whole`: it has all of them.
template <int ACCESS, int OPERAND, class T>
DEVICE Vec<T, V> load_of_row(const RowParameters& p, const T* row, i64 first, bool whole) {
  if constexpr (ACCESS == kUniform) return load_splat<V>(row);
  if constexpr (ACCESS == kRow)
    if (whole) return load_vector<V>(row + first);
  if constexpr (ACCESS == kVector)
    if (whole) return load_vector<V>(row + offset_in_row<OPERAND>(p, first));
  if constexpr (ACCESS == kSplat)
    if (whole) return load_splat<V>(row + offset_in_row<OPERAND>(p, first));
  Vec<T, V> r;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    r.at[k] = T{};
    if (whole || u32(first + k) < u32(p.n)) {  // a part of a row has few elements
      if constexpr (ACCESS == kRow || ACCESS == kBeside) r.at[k] = row[first + k];
      else r.at[k] = row[offset_in_row<OPERAND>(p, first + k)];
    }
  }
  return r;
}
template <int ACCESS, int OPERAND, class T>
DEVICE void store_to_row(const RowParameters& p, T* row, i64 first, bool whole, const Vec<T, V>& x) {
  if constexpr (ACCESS == kRow)
    if (whole) return store_vector(row + first, x);
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (whole || u32(first + k) < u32(p.n))
      row[ACCESS == kRow ? first + k : offset_in_row<OPERAND>(p, first + k)] = x.at[k];
}

// Generated: struct RowTensors with a pointer for each tensor, and
//   read_row(p, row, first, whole, x)      V values behind the prologue
//   write_row(p, row, first, whole, x, y)  the results of y, which was made of x
struct RowTensors;
DEVICE void read_row(const RowParameters& p, const RowTensors& row, i64 first, bool whole, Value (&x)[V]);
DEVICE void write_row(const RowParameters& p, const RowTensors& row, i64 first, bool whole, const Value (&x)[V],
                      const Value (&y)[V]);

// A thread's part of its row. Threads without a row work on row 0 and write nothing, so that all meet.
struct Part {
  bool active;
  u32 lane;
  i32 head;  // how many elements the row begins behind a multiple of V
  Value x[HELD ? ITEMS : 1][V];

  DEVICE_MEMBER i32 first(int i) const { return i32((u32(i) * THREADS + lane) * V) - head; }
  DEVICE_MEMBER bool has(const RowParameters& p, int i, int k) const {
    return ALIGNED ? first(i) < i32(p.n) : u32(first(i) + k) < u32(p.n);
  }
  DEVICE_MEMBER bool whole(const RowParameters& p, int i) const {
    return ALIGNED || (first(i) >= 0 && first(i) + V <= i32(p.n));
  }
};

// Waits for the previous kernel, too (PDL, Job::overlap).
DEVICE Part this_part(const RowParameters& p, i64 (&at)[OPERANDS]) {
  wait_for_inputs();
  Part part;
  const u64 index = u64(blockIdx.x) * (BLOCK / THREADS) + threadIdx.x / THREADS;
  part.lane = threadIdx.x % THREADS;
  part.active = index < p.rows;
  walk_offsets<KEPT, OPERANDS>(p.kept, part.active ? Index(index) : Index(0), at);
  part.head = ALIGNED ? 0 : i32(at[0] % V);
  return part;
}
DEVICE void hold_part(const RowParameters& p, const RowTensors& row, Part& part) {
  if constexpr (HELD) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (part.first(i) < i32(p.n)) read_row(p, row, part.first(i), part.whole(p, i), part.x[i]);
  }
}

// f(value) for each value of the row that is this thread's; f may change what is held.
template <class F>
DEVICE void each_value(const RowParameters& p, const RowTensors& row, Part& part, F&& f) {
  if constexpr (HELD) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (part.has(p, i, k)) f(part.x[i][k]);
  } else if (part.active) {
    for (Index j = part.lane; j < Index(p.n); j += THREADS) {
      Value x[V];
      read_row(p, row, i64(j), true, x);
      f(x[0]);
    }
  }
}
// Writes f(value) for each value.
template <class F>
DEVICE void write_part(const RowParameters& p, const RowTensors& row, const Part& part, F&& f) {
  if (!part.active) return;
  Value y[V];
  if constexpr (HELD) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (part.first(i) < i32(p.n)) {
#pragma unroll
        for (int k = 0; k < V; ++k) y[k] = f(part.x[i][k]);
        write_row(p, row, part.first(i), part.whole(p, i), part.x[i], y);
      }
  } else {
    for (Index j = part.lane; j < Index(p.n); j += THREADS) {
      Value x[V];
      read_row(p, row, i64(j), true, x);
      y[0] = f(x[0]);
      write_row(p, row, i64(j), true, x, y);
    }
  }
}
