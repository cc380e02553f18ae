// SPDX-License-Identifier: Apache-2.0
// Work along rows: LANES threads (1, 32 or 256) share a row, which is any set of axes of a tensor. Generated before
// this text: LANES, KEPT (axes between rows) and REDUCED (axes within a row), Index, Input, Output.
#pragma once
#include "backends/cuda/support/memory.cuh"

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

// A sum that does not lose digits: what rounding takes from `high` is kept in `low` (Neumaier's variant of Kahan's).
struct FloatSum {
  float high = 0, low = 0;
  DEVICE_MEMBER void add(float x) {
    const float sum = high + x;
    low += ::fabsf(high) >= ::fabsf(x) ? (high - sum) + x : (x - sum) + high;
    high = sum;
  }
  DEVICE_MEMBER void add(const FloatSum& other) {
    add(other.high);
    low += other.low;
  }
  // Where the sum is not finite, `low` means nothing.
  DEVICE_MEMBER double value() const {
    return ::fabsf(high) < __int_as_float(0x7f800000) ? double(high) + double(low) : double(high);
  }
};
template <class T>
struct PlainSum {
  T high = 0;
  DEVICE_MEMBER void add(T x) { high = op::add(high, x); }
  DEVICE_MEMBER void add(const PlainSum& other) { add(other.high); }
  DEVICE_MEMBER T value() const { return high; }
};
template <class T>
struct SumOf {
  using type = PlainSum<T>;
};
template <>
struct SumOf<float> {
  using type = FloatSum;
};

template <class T>
DEVICE T shuffle_xor(const T& x, int mask) {
  static_assert(sizeof(T) % 4 == 0, "words");
  T out;
  const u32* from = reinterpret_cast<const u32*>(&x);
  u32* to = reinterpret_cast<u32*>(&out);
#pragma unroll
  for (int i = 0; i < int(sizeof(T) / 4); ++i) to[i] = __shfl_xor_sync(0xffffffffu, from[i], mask);
  return out;
}

// Joins what the threads of a row have; all of them get the result. join(a, b) does not care for the order of its
// arguments, and every thread joins in the same order, so that results are the same bits from run to run.
template <class T, class Join>
DEVICE T across_row(T mine, Join&& join) {
  if constexpr (LANES >= 32) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      const T other = shuffle_xor(mine, mask);
      mine = (threadIdx.x & mask) ? join(other, mine) : join(mine, other);
    }
  }
  if constexpr (LANES == 256) {
    __shared__ __align__(8) char raw[8 * sizeof(T)];
    T* shared = reinterpret_cast<T*>(raw);
    __syncthreads();  // the last use of it is over
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = shared[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) mine = join(mine, shared[i]);
  }
  return mine;
}
template <class S>
DEVICE S sum_across_row(const S& mine) {
  return across_row(mine, [](S a, const S& b) {
    a.add(b);
    return a;
  });
}
template <class T>
DEVICE T max_across_row(T mine) {
  return across_row(mine, [](T a, T b) { return op::max(a, b); });
}
