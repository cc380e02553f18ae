// SPDX-License-Identifier: Apache-2.0
// Joins the parts' moments of the groups of a tile, and writes the results. Generated before this text: CHUNKS (parts
// of the positions in group_sums.cu), PARTS (in this kernel), and what groups.cuh needs.
//
// Memory: both kernels read each element once, and this one writes it. It begins where the first one ended, so that it
// reads what is still in L2.
#include "backends/cuda/normalize/groups.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    group_results(PARAMETERS const Moments* in_moments, const RowParameters p) {
  wait_for_inputs();
  const Place place = place_of(gridDim.x - 1 - blockIdx.x, PARTS);
  const Shared shared = shared_places<0>();
  const Moments* of_tile = in_moments + u64(place.sample) * CHUNKS * (CHANNELS / GROUP) + place.tile * GROUPS;
  join_parts<CHUNKS>(p, shared, [&](u32 part, u32 group) { return of_tile[u64(part) * (CHANNELS / GROUP) + group]; });
  write_results<true>(p, sample_of(p, ROW_TENSORS, place), place, shared);
}
