// SPDX-License-Identifier: Apache-2.0
// Joins the parts' moments of the groups of a tile, and writes the results. Generated before this text: PARTS (of the
// positions, in this kernel), and what groups.cuh needs. `number` is epsilon.
//
// Memory: both kernels read each element once, the second from L2 where the tensor fits, and this one writes it. Of
// 320 x 64 x 64 in fp16 a tile is 160 bytes of each position, and two samples give 328 blocks of 256 threads.
#include "backends/cuda/normalize/groups.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    group_results(PARAMETERS const Moments* in_moments, const RowParameters p) {
  wait_for_inputs();
  __shared__ Value means[GROUPS], rests[GROUPS], factors[GROUPS];
  const Place place = this_place();
  const auto part_of = [](u32 i) {
    return Statistic(u32(u64(POSITIONS) * (i + 1) / CHUNKS) - u32(u64(POSITIONS) * i / CHUNKS)) * GROUP;
  };
  const Moments* of_tile = in_moments + u64(place.sample) * CHUNKS * (CHANNELS / GROUP) + place.tile * GROUPS;
  for (u32 group = threadIdx.x / 32; group < GROUPS; group += BLOCK / 32) {
    Statistic mean = 0, total = 0;
    if (CENTER) {
      for (u32 i = threadIdx.x % 32; i < CHUNKS; i += 32)
        mean += part_of(i) * of_tile[u64(i) * (CHANNELS / GROUP) + group].mean;
      mean = sum_of_warp(mean) * kInverse;
    }
    for (u32 i = threadIdx.x % 32; i < CHUNKS; i += 32) {
      const Moments part = of_tile[u64(i) * (CHANNELS / GROUP) + group];
      const Statistic d = part.mean - mean;
      total += part.squares + (CENTER ? part_of(i) * d * d : 0);
    }
    total = sum_of_warp(total);
    if (threadIdx.x % 32 == 0) {
      means[group] = Value(mean);
      rests[group] = Value(mean - Statistic(means[group]));
      const Statistic variance = total * kInverse + Statistic(p.number);
      factors[group] = Value(1 / op::sqrt(variance));
    }
  }
  __syncthreads();
  if (!place.active) return;
  i64 at[OPERANDS];
  walk_offsets<KEPT, OPERANDS>(p.kept, Index(place.sample), at);
  const RowTensors row = moved(ROW_TENSORS, at);
  Value mean[V], rest[V], factor[V];
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const u32 group = (threadIdx.x % ACROSS * V + k) / GROUP;
    mean[k] = means[group];
    rest[k] = rests[group];
    factor[k] = factors[group];
  }
  const u32 begin = u32(u64(POSITIONS) * blockIdx.x / PARTS), end = u32(u64(POSITIONS) * (blockIdx.x + 1) / PARTS);
  Fixed fixed;
  if (FIXED_OF_CHANNELS) read_fixed(p, row, place.channel, true, fixed);
#pragma unroll 1
  for (u32 s = begin + place.down; s < end; s += AHEAD * DOWN) {
    Given given[AHEAD];
    read_positions(p, row, s, end, place.channel, given);
#pragma unroll
    for (u32 i = 0; i < AHEAD; ++i) {
      if (s + i * DOWN >= end) continue;
      const i64 first = i64(s + i * DOWN) * CHANNELS + place.channel;
      Value x[V], y[V];
      take_given(p, given[i], x);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const Value d = EXACT ? (x[k] - mean[k]) - rest[k] : x[k] - mean[k];
        y[k] = d * factor[k];
      }
      if (!FIXED_OF_CHANNELS) read_fixed(p, row, first, true, fixed);
      write_row(p, row, first, true, fixed, x, y);
    }
  }
}
