// SPDX-License-Identifier: Apache-2.0
// Sums over the threads before this one.
#pragma once
#include "backends/cuda/support/memory.cuh"
#include "backends/cuda/support/warp_scan.cuh"

// Over the threads of the block (of so many warps) before this one; `all`: over all of them. All threads call it.
template <u32 WARPS>
DEVICE u32 sum_before(u32 mine, u32& all) {
  __shared__ u32 of_warps[WARPS];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 through = sum_through_lane(mine);
  __syncthreads();  // the last use of it is over
  if (lane == 31) of_warps[warp] = through;
  __syncthreads();
  u32 before = through - mine;
  all = 0;
#pragma unroll
  for (u32 w = 0; w < WARPS; ++w) {
    const u32 count = of_warps[w];
    if (w < warp) before += count;
    all += count;
  }
  return before;
}
