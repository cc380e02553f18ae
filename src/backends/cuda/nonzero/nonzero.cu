// SPDX-License-Identifier: Apache-2.0
// The positions of the elements that are not 0. Generated before this text: what tiles.cuh needs; RANK.
#include "backends/cuda/scan/tiles.cuh"

struct Parameters {
  u32 count;  // elements
  Walk<RANK, 0> walk;
};

// `before`: what the tiles before each have; `total`: what all have, the length of out's rows.
extern "C" __global__ void __launch_bounds__(256)
    nonzero(const Word* x, const u32* before, const i64* total, i64* out, const Parameters p) {
  wait_for_inputs();
  const u32 found = found_by_thread(x, p.count);
  u32 all;
  u32 at = before[blockIdx.x] + found_before(found, all);
  const i64 row = *total;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) {
    if (!(found >> k & 1)) continue;
    u32 position = first_of_thread() + k;
#pragma unroll
    for (int axis = RANK - 1; axis >= 0; --axis) {
      const u32 outer = axis == 0 ? 0 : divide(position, p.walk.sizes[axis]);
      out[axis * row + at] = position - outer * p.walk.sizes[axis].divisor;
      position = outer;
    }
    ++at;
  }
}
