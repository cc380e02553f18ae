// SPDX-License-Identifier: Apache-2.0
// What the threads of a warp up to this one have together.
#pragma once
#include "backends/cuda/support/scalar.cuh"

// join(what is before, what is behind it), for an order that counts. All threads of the warp call it.
template <class T, class Join>
DEVICE T through_lane(T mine, Join&& join) {
#pragma unroll
  for (u32 by = 1; by < 32; by *= 2) {
    const T left = __shfl_up_sync(0xffffffffu, mine, by);
    if (threadIdx.x % 32 >= by) mine = join(left, mine);
  }
  return mine;
}
template <class T>
DEVICE T sum_through_lane(T mine) {
  return through_lane(mine, [](T a, T b) { return a + b; });
}
