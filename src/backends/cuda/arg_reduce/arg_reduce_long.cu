// SPDX-License-Identifier: Apache-2.0
// The position of the best element of a long row, as arg_reduce.cu finds it, by a block of its own or by SPLITS blocks
// of a cluster: UNROLL elements of a thread are on their way at once. Generated before this text: Input, MAX, LAST,
// SPLITS.
using Position = i32;
#include "backends/cuda/arg_reduce/best.cuh"
#include "backends/cuda/rows/row_sums.cuh"
#include "backends/cuda/support/cluster_parts.cuh"

struct Parameters {
  i32 count;
};
constexpr int THREADS = 512, UNROLL = 16;

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS)
    arg_reduce_long(const Input* in, i64* out, const Parameters p) {
  Best* const found = reinterpret_cast<Best*>(dynamic_shared());  // of the block, then of its warps
  wait_for_inputs();
  if (PARTS == 1 && blockIdx.y > 0) return;
  in += i64(blockIdx.x) * p.count;
  Best best{-1, H(0)};
#pragma unroll 1
  for (i32 begin = i32(blockIdx.y * THREADS * UNROLL + threadIdx.x); begin < p.count;
       begin += PARTS * THREADS * UNROLL) {
    Input x[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (begin + u * THREADS < p.count) x[u] = in[begin + u * THREADS];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (begin + u * THREADS < p.count) best = better_of(best, Best{begin + u * THREADS, hold(x[u])});
  }
  auto better = [](const Best& a, const Best& b) { return better_of(a, b); };
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  best = across_threads<32>(best, better);
  if (lane == 0) found[1 + warp] = best;
  __syncthreads();
  if (warp == 0) {
    best = across_threads<THREADS / 32>(found[1 + lane % (THREADS / 32)], better);
    if (lane == 0) found[0] = best;
  }
  if constexpr (PARTS > 1) meet_cluster();
  if (blockIdx.y == 0 && warp == 0) {
    if constexpr (PARTS > 1)
      best = across_threads<PARTS>(*reinterpret_cast<const Best*>(in_block(reinterpret_cast<u8*>(found), lane % PARTS)),
                                   better);
    if (lane == 0) out[blockIdx.x] = best.at;
  }
  if constexpr (PARTS > 1) meet_cluster();  // the first block may still read here
}
