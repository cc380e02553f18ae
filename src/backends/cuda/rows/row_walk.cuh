// SPDX-License-Identifier: Apache-2.0
// How the threads of a block go from row to row, and from vector to vector of what they hold of one; it stands behind
// what row_programs.cuh declares.
#pragma once
#include "backends/cuda/rows/row_programs.cuh"

DEVICE void read_row(const RowParameters& p, const RowTensors& row, i64 first, bool whole, Value (&x)[V]) {
  Given given;
  read_given(p, row, first, whole, given);
  take_given(p, given, x);
}

// What was loaded, as words that are not looked into: the compiler would take the elements of the next row out of them,
// and put them together again for the way to its turn, and so wait for the load.
DEVICE void keep_words(Given& given) {
  if constexpr (LOOP && sizeof(Given) % 4 == 0) {
    u32* const words = reinterpret_cast<u32*>(&given);
#pragma unroll
    for (u32 i = 0; i < sizeof(Given) / 4; ++i) words[i] = renewed(words[i]);
  }
}

// A thread's part of its row. Threads without a row work on row 0 and write nothing, so that all meet.
struct Part {
  bool active;
  u32 lane;
  i32 head;  // how many elements the row begins behind a multiple of V
  Value x[HELD ? ITEMS : 1][V];
  Fixed fixed[FIXED_HELD ? ITEMS : 1];

  DEVICE_MEMBER i32 first(int i) const { return i32((u32(i) * THREADS + lane) * V) - head; }
  // Whether the row has any element of vector i, element k of it, all of it.
  DEVICE_MEMBER bool any(const RowParameters& p, int i) const { return FULL || first(i) < i32(p.n); }
  DEVICE_MEMBER bool has(const RowParameters& p, int i, int k) const {
    return FULL || (ALIGNED ? first(i) < i32(p.n) : u32(first(i) + k) < u32(p.n));
  }
  DEVICE_MEMBER bool whole(const RowParameters& p, int i) const {
    return ALIGNED || (first(i) >= 0 && first(i) + V <= i32(p.n));
  }
  // The row that is number `index` of the walk.
  DEVICE_MEMBER RowTensors go_to(const RowParameters& p, const RowTensors& tensors, Index index) {
    i64 at[OPERANDS];
    active = index < Index(p.rows);
    const Index row = !active ? Index(0) : p.backwards ? Index(p.rows) - 1 - index : index;
    walk_offsets<KEPT, OPERANDS>(p.kept, row, at);
    head = ALIGNED ? 0 : i32(at[0] % V);
    return moved(tensors, at, row);
  }
  DEVICE_MEMBER void hold_fixed(const RowParameters& p, const RowTensors& tensors) {
    if constexpr (FIXED_HELD) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i)
        if (any(p, i)) read_fixed(p, tensors, first(i), whole(p, i), fixed[i]);
    }
  }
  DEVICE_MEMBER void read(const RowParameters& p, const RowTensors& row, Given (&given)[HELD ? ITEMS : 1]) const {
    if constexpr (HELD) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i)
        if (any(p, i)) read_given(p, row, first(i), whole(p, i), given[i]), keep_words(given[i]);
    }
  }
};

// f(part, row) for the rows of this block; in it all threads of the block may meet. Waits for the previous kernel, too
// (PDL, Job::overlap).
template <class F>
DEVICE void each_row(const RowParameters& p, const RowTensors& tensors, F&& f) {
  constexpr u32 ROWS = BLOCK / THREADS;
  const u32 mine = threadIdx.x / THREADS;
  Part part;
  part.lane = threadIdx.x % THREADS;
  part.head = 0;
  if (EARLY) part.hold_fixed(p, tensors);
  wait_for_inputs();
  Index first = Index(blockIdx.x) * ROWS;
  RowTensors row = part.go_to(p, tensors, first + mine);
  Given given[HELD ? ITEMS : 1];
  part.read(p, row, given);
  if (!EARLY) part.hold_fixed(p, tensors);
#pragma unroll 1
  while (true) {
    if constexpr (HELD) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i)
        if (part.any(p, i)) take_given(p, given[i], part.x[i]);
    }
    const Index next = first + Index(gridDim.x) * ROWS;
    if constexpr (LOOP) {
      Part other = part;
      if (next < Index(p.rows)) other.read(p, other.go_to(p, tensors, next + mine), given);
    }
    f(part, row);
    if (!LOOP || next >= Index(p.rows)) return;
    first = next;
    row = part.go_to(p, tensors, first + mine);
  }
}

// f(value, k) for each value of the row that is this thread's, element k of a vector; f may change what is held.
template <class F>
DEVICE void each_value(const RowParameters& p, const RowTensors& row, Part& part, F&& f) {
  if constexpr (HELD) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (part.has(p, i, k)) f(part.x[i][k], k);
  } else if (part.active) {
    for (Index j = part.lane; j < Index(p.n); j += THREADS) {
      Value x[V];
      read_row(p, row, i64(j), true, x);
      f(x[0], 0);
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
      if (part.any(p, i)) {
        Fixed fixed;
        if constexpr (FIXED_HELD) fixed = part.fixed[i];
        else read_fixed(p, row, part.first(i), part.whole(p, i), fixed);
#pragma unroll
        for (int k = 0; k < V; ++k) y[k] = f(part.x[i][k]);
        write_row(p, row, part.first(i), part.whole(p, i), fixed, part.x[i], y);
      }
  } else {
    for (Index j = part.lane; j < Index(p.n); j += THREADS) {
      Value x[V];
      Fixed fixed;
      read_row(p, row, i64(j), true, x);
      read_fixed(p, row, i64(j), true, fixed);
      y[0] = f(x[0]);
      write_row(p, row, i64(j), true, fixed, x, y);
    }
  }
}
