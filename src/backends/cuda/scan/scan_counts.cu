// SPDX-License-Identifier: Apache-2.0
// Counts become the sums of those before them, in their place, and `total` the sum of all: one block, tile by tile.
#include "backends/cuda/scan/scan.cuh"

struct Parameters {
  u32 n;
};

constexpr u32 kEach = 4;  // neighbours of a thread

extern "C" __global__ void __launch_bounds__(1024) scan_counts(u32* counts, i64* total, const Parameters p) {
  wait_for_inputs();
  u32 before = 0;
  for (u32 tile = 0; tile < p.n; tile += 1024 * kEach) {
    const u32 first = tile + threadIdx.x * kEach;
    u32 mine[kEach], own = 0, all = 0;
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) own += mine[k] = first + k < p.n ? counts[first + k] : 0;
    u32 sum = before + sum_before<32>(own, all);
    before += all;
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) {
      if (first + k < p.n) counts[first + k] = sum;
      sum += mine[k];
    }
  }
  if (threadIdx.x == 0) *total = before;
}
