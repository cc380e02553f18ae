// SPDX-License-Identifier: Apache-2.0
// Sums, and what the threads that share a row join.
#pragma once
#include "backends/cuda/support/memory.cuh"

// A sum that does not lose digits: what rounding takes from `high` is kept in `low` (Neumaier's variant of Kahan's).
struct FloatSum {
  float high = 0, low = 0;
  DEVICE_MEMBER void add(float x) {
    const float sum = high + x;
    low += ::fabsf(high) >= ::fabsf(x) ? (high - sum) + x : (x - sum) + high;
    high = sum;
  }
  DEVICE_MEMBER void add_square(float x) { add(x * x); }
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
  DEVICE_MEMBER void add_square(T x) {
    if constexpr (is_same<T, float>) high = __fmaf_rn(x, x, high);
    else add(x * x);
  }
  DEVICE_MEMBER void add(const PlainSum& other) { add(other.high); }
  DEVICE_MEMBER T value() const { return high; }
};
// `exact`: as many digits as f32 has; else as many as 16 bits need.
template <class T, bool exact = true>
struct SumOf {
  using type = PlainSum<T>;
};
template <>
struct SumOf<float, true> {
  using type = FloatSum;
};

// A sum in parts that do not wait for each other's additions; where it is exact it is one part, which takes registers.
template <class T, bool exact>
struct Sums {
  static constexpr int WAYS = exact ? 1 : 4;
  typename SumOf<T, exact>::type parts[WAYS];
  // `k`: a number that is known when this is compiled.
  DEVICE_MEMBER void add(T x, int k) { parts[k % WAYS].add(x); }
  DEVICE_MEMBER void add_square(T x, int k) { parts[k % WAYS].add_square(x); }
  DEVICE_MEMBER auto all() const {
    if constexpr (exact) return parts[0];
    else {
      auto first = parts[0], second = parts[2];
      first.add(parts[1]);
      second.add(parts[3]);
      first.add(second);
      return first;
    }
  }
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

// Joins what the threads of a row have, a power of two of them; all get the result. join(a, b) does not care for the
// order of its arguments, and every thread joins in the same order, so that results are the same bits from run to run.
// Those who join under another number than the last time, of 0 and 1, have met in between and need not do so again.
constexpr int kAnyTurn = -1;
template <int THREADS_OF_ROW, int TURN = kAnyTurn, class T, class Join>
DEVICE T across_threads(T mine, Join&& join) {
#pragma unroll
  for (int mask = (THREADS_OF_ROW < 32 ? THREADS_OF_ROW : 32) / 2; mask > 0; mask /= 2) {
    const T other = shuffle_xor(mine, mask);
    mine = (threadIdx.x & mask) ? join(other, mine) : join(mine, other);
  }
  if constexpr (THREADS_OF_ROW > 32) {
    constexpr int WARPS = THREADS_OF_ROW / 32;
    __shared__ __align__(8) char raw[32 * sizeof(T)];
    T* shared = reinterpret_cast<T*>(raw);
    if (TURN == kAnyTurn) __syncthreads();  // the last use of it is over
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
    __syncthreads();
    const T* of_row = shared + threadIdx.x / THREADS_OF_ROW * WARPS;
    mine = of_row[0];
#pragma unroll
    for (int i = 1; i < WARPS; ++i) mine = join(mine, of_row[i]);
  }
  return mine;
}
template <int THREADS_OF_ROW, int TURN = kAnyTurn, class S>
DEVICE S sum_across(const S& mine) {
  return across_threads<THREADS_OF_ROW, TURN>(mine, [](S a, const S& b) {
    a.add(b);
    return a;
  });
}
template <int THREADS_OF_ROW, int TURN = kAnyTurn, class T>
DEVICE T max_across(T mine) {
  return across_threads<THREADS_OF_ROW, TURN>(mine, [](T a, T b) { return op::max(a, b); });
}
