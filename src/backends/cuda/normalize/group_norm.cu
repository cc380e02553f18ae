// SPDX-License-Identifier: Apache-2.0
// Groups that cross a block, in one launch: the blocks of a cluster share a tile of a sample, each keeps its part of it
// in shared memory, and they tell one another the moments of their parts. Generated before this text: SPLITS (blocks of
// a cluster), LEAST (blocks of an SM), ALL_HELD (nothing is read twice), and what groups.cuh needs.
//
// Memory: what is held crosses it once in each direction. Of 320 x 64 x 64 in fp16 with 32 groups a tile is 80 bytes of
// each position; eight blocks hold 40 KB of it each, two samples take 128 blocks, and loads of several blocks of an SM
// run beside stores of others where samples are more.
#include "backends/cuda/normalize/groups.cuh"

#if SPLITS > 1 && __CUDA_ARCH__ >= 900
#define CLUSTER __cluster_dims__(SPLITS, 1, 1)
constexpr u32 BLOCKS = SPLITS;
#else
#define CLUSTER
constexpr u32 BLOCKS = 1;  // without clusters, the first block reads all, and what it does not hold twice
#endif

#if __CUDA_ARCH__ >= 900
constexpr int AT_LEAST = LEAST;
#else
constexpr int AT_LEAST = 1;  // older generations want more registers for the same text
#endif

extern "C" __global__ void CLUSTER __launch_bounds__(BLOCK, AT_LEAST) group_norm(PARAMETERS const RowParameters p) {
  if constexpr (BLOCKS > 1) meet_cluster();  // from here on blocks may write to one another's shared memory
  wait_for_inputs();
  if (BLOCKS < SPLITS && blockIdx.x % SPLITS != 0) return;
  const Place place = place_of(blockIdx.x / (SPLITS / BLOCKS), BLOCKS);
  const Shared shared = shared_places<SPLITS>();
  const RowTensors row = sample_of(p, ROW_TENSORS, place);
  collect(p, row, place, shared, [&](u32 group, const Moments& moments) {
    const u32 to = threadIdx.x % 32;
    if (to >= BLOCKS) return;
    Moments* const there = shared.of_parts + place.part * GROUPS + group;
    if constexpr (BLOCKS > 1) *in_block(there, to) = moments;
    else *there = moments;
  });
  if constexpr (BLOCKS > 1) meet_cluster();
  else __syncthreads();
  join_parts<BLOCKS>(p, shared, [&](u32 part, u32 group) { return shared.of_parts[part * GROUPS + group]; });
  write_results < !ALL_HELD || BLOCKS<SPLITS>(p, row, place, shared);
}
