// SPDX-License-Identifier: Apache-2.0
// Mean and squares of each group in a part of the positions, where no cluster of blocks holds a tile. Generated before
// this text: CHUNKS (parts of the positions), and what groups.cuh needs.
#include "backends/cuda/normalize/groups.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) group_sums(PARAMETERS Moments* out_moments, const RowParameters p) {
  wait_for_inputs();
  const Place place = place_of(blockIdx.x, CHUNKS);
  collect(p, sample_of(p, ROW_TENSORS, place), place, shared_places<0>(), [&](u32 group, const Moments& moments) {
    if (threadIdx.x % 32 == 0)
      out_moments[(u64(place.sample) * CHUNKS + place.part) * (CHANNELS / GROUP) + place.tile * GROUPS + group] =
          moments;
  });
}
