// SPDX-License-Identifier: Apache-2.0
// Mean and squares of each group in a part of the positions. A thread sums differences from its first element, which
// lose no digits where the mean is large; what threads have is then joined by the formula of Chan, Golub and LeVeque
// (1979). Generated before this text: what groups.cuh needs.
#include "backends/cuda/normalize/groups.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) group_sums(PARAMETERS Moments* out_moments, const RowParameters p) {
  wait_for_inputs();
  __shared__ Statistic means[DOWN][TILE], squares[DOWN][TILE];
  const Place place = this_place();
  i64 at[OPERANDS];
  walk_offsets<KEPT, OPERANDS>(p.kept, Index(place.sample), at);
  const RowTensors row = moved(ROW_TENSORS, at);
  const u32 begin = u32(u64(POSITIONS) * blockIdx.x / CHUNKS), end = u32(u64(POSITIONS) * (blockIdx.x + 1) / CHUNKS);
  // Positions of thread row d: begin + d, begin + d + DOWN, ...
  const auto positions_of = [&](u32 d) { return begin + d < end ? (end - begin - d + DOWN - 1) / DOWN : 0u; };
  if (place.active) {
    typename SumOf<Value, EXACT>::type sums[V], products[V];
    Value shift[V];
#pragma unroll
    for (int k = 0; k < V; ++k) shift[k] = 0;
    if (CENTER && begin + place.down < end)
      read_row(p, row, i64(begin + place.down) * CHANNELS + place.channel, true, shift);
#pragma unroll 1
    for (u32 s = begin + place.down; s < end; s += AHEAD * DOWN) {
      Given given[AHEAD];
      read_positions(p, row, s, end, place.channel, given);
#pragma unroll
      for (u32 i = 0; i < AHEAD; ++i) {
        if (s + i * DOWN >= end) continue;
        Value x[V];
        take_given(p, given[i], x);
#pragma unroll
        for (int k = 0; k < V; ++k) {
          const Value d = x[k] - shift[k];
          if (CENTER) sums[k].add(d);
          products[k].add_square(d);
        }
      }
    }
    const Statistic count = Statistic(positions_of(place.down));
    const u32 tile = threadIdx.x % ACROSS * V;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Statistic sum = Statistic(sums[k].value()), mean = count > 0 ? sum / count : Statistic(0);
      means[place.down][tile + k] = Statistic(shift[k]) + mean;
      squares[place.down][tile + k] = Statistic(products[k].value()) - sum * mean;
    }
  }
  __syncthreads();
  const Statistic all = Statistic(end - begin) * GROUP;
  for (u32 group = threadIdx.x / 32; group < GROUPS; group += BLOCK / 32) {
    Statistic mean = 0, total = 0;
    if (CENTER) {
      for (u32 i = threadIdx.x % 32; i < DOWN * GROUP; i += 32)
        mean += Statistic(positions_of(i / GROUP)) * means[i / GROUP][group * GROUP + i % GROUP];
      mean = sum_of_warp(mean) / all;
    }
    for (u32 i = threadIdx.x % 32; i < DOWN * GROUP; i += 32) {
      const Statistic d = means[i / GROUP][group * GROUP + i % GROUP] - mean;
      total +=
          squares[i / GROUP][group * GROUP + i % GROUP] + (CENTER ? Statistic(positions_of(i / GROUP)) * d * d : 0);
    }
    total = sum_of_warp(total);
    if (threadIdx.x % 32 == 0)
      out_moments[(u64(place.sample) * CHUNKS + blockIdx.x) * (CHANNELS / GROUP) + place.tile * GROUPS + group] = {
          mean, total};
  }
}
