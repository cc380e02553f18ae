// SPDX-License-Identifier: Apache-2.0
// The positions of the elements that are not 0. A thread has a few neighbours, so that positions stay in their order.
// Generated before this text: Word, an element's bits; MASK, those that are 0 in a 0 of either sign; RANK; kTile.
#include "backends/cuda/scan/scan.cuh"

struct Parameters {
  u32 count;  // elements
  Walk<RANK, 0> walk;
};

constexpr u32 kEach = kTile / 256;

// Bit k: of the thread's elements the k-th is not 0.
DEVICE u32 found_by_thread(const Word* x, u32 first, u32 count) {
  u32 found = 0;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k)
    if (first + k < count && (x[first + k] & MASK) != 0) found |= 1u << k;
  return found;
}
DEVICE u32 number_of(u32 bits) {
  u32 number = 0;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) number += bits >> k & 1;
  return number;
}

extern "C" __global__ void __launch_bounds__(256) nonzero_count(const Word* x, u32* counts, const Parameters p) {
  wait_for_inputs();
  const u32 first = blockIdx.x * kTile + threadIdx.x * kEach;
  u32 all;
  sum_before<8>(number_of(found_by_thread(x, first, p.count)), all);
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

// `before`: what the blocks before each have; `total`: what all have, the length of out's rows.
extern "C" __global__ void __launch_bounds__(256)
    nonzero_write(const Word* x, const u32* before, const i64* total, i64* out, const Parameters p) {
  wait_for_inputs();
  const u32 first = blockIdx.x * kTile + threadIdx.x * kEach;
  const u32 found = found_by_thread(x, first, p.count);
  u32 all;
  u32 at = before[blockIdx.x] + sum_before<8>(number_of(found), all);
  const i64 row = *total;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) {
    if (!(found >> k & 1)) continue;
    u32 position = first + k;
#pragma unroll
    for (int axis = RANK - 1; axis >= 0; --axis) {
      const u32 outer = axis == 0 ? 0 : divide(position, p.walk.sizes[axis]);
      out[axis * row + at] = position - outer * p.walk.sizes[axis].divisor;
      position = outer;
    }
    ++at;
  }
}
