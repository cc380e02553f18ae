// SPDX-License-Identifier: Apache-2.0
// Numbers the groups: where each begins in the order of the slices, and of each slice which group it is of, and whether
// it is the earliest of it. Generated before this text: what tiles.cuh needs.
#include "backends/cuda/scan/tiles.cuh"

struct Parameters {
  u32 n;
};

extern "C" __global__ void __launch_bounds__(256)
    unique_groups(const Word* begins, const i64* order, const u32* before, u32* begins_at, u32* group_of,
                  u8* is_earliest, const Parameters p) {
  wait_for_inputs();
  const u32 found = found_by_thread(begins, p.n);
  u32 all;
  u32 groups = before[blockIdx.x] + found_before(found, all);  // up to the place that is looked at
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) {
    const u32 at = first_of_thread() + k;
    if (at >= p.n) break;
    const bool begin = found >> k & 1;
    if (begin) begins_at[groups++] = at;
    const u32 slice = u32(order[at]);
    group_of[slice] = groups - 1;
    is_earliest[slice] = begin;
  }
}
