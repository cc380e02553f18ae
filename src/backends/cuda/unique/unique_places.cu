// SPDX-License-Identifier: Apache-2.0
// The place of each group in the order of the earliest slices. Generated before this text: what tiles.cuh needs.
#include "backends/cuda/scan/tiles.cuh"

struct Parameters {
  u32 n;
};

extern "C" __global__ void __launch_bounds__(256)
    unique_places(const Word* is_earliest, const u32* before, const u32* group_of, u32* place_of, const Parameters p) {
  wait_for_inputs();
  const u32 found = found_by_thread(is_earliest, p.n);
  u32 all;
  u32 place = before[blockIdx.x] + found_before(found, all);
#pragma unroll
  for (u32 k = 0; k < kEach; ++k)
    if (found >> k & 1) place_of[group_of[first_of_thread() + k]] = place++;
}
