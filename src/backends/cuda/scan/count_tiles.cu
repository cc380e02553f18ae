// SPDX-License-Identifier: Apache-2.0
// How many elements of each tile are not 0. Generated before this text: what tiles.cuh needs.
#include "backends/cuda/scan/tiles.cuh"

struct Parameters {
  u32 count;
};

extern "C" __global__ void __launch_bounds__(256) count_tiles(const Word* x, u32* counts, const Parameters p) {
  wait_for_inputs();
  u32 all;
  found_before(found_by_thread(x, p.count), all);
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}
