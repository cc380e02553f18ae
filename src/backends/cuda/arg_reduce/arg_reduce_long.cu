// SPDX-License-Identifier: Apache-2.0
// The position of the best element of a long row, as arg_reduce.cu finds it, by a block of its own or by SPLITS blocks
// of a cluster: UNROLL elements of a thread are on their way at once. Generated before this text: Input, MAX, LAST,
// SPLITS.
#include "backends/cuda/arg_reduce/best.cuh"
#include "backends/cuda/support/ptx.cuh"

struct Parameters {
  i32 count;
};
constexpr int THREADS = 512, UNROLL = 8;

#if SPLITS > 1 && __CUDA_ARCH__ >= 900
#define CLUSTER __cluster_dims__(1, SPLITS, 1)
constexpr int PARTS = SPLITS;
#else
#define CLUSTER
constexpr int PARTS = 1;  // without clusters, the first block looks at all
#endif

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS)
    arg_reduce_long(const Input* in, i64* out, const Parameters p) {
  Best* const found = reinterpret_cast<Best*>(dynamic_shared());
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
  found[threadIdx.x] = best;
#pragma unroll 1
  for (u32 half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) found[threadIdx.x] = better_of(found[threadIdx.x], found[threadIdx.x + half]);
  }
  if constexpr (PARTS > 1) meet_cluster();
  if (blockIdx.y == 0 && threadIdx.x == 0) {
    if constexpr (PARTS > 1) {
#pragma unroll 1
      for (u32 other = 1; other < PARTS; ++other)
        found[0] = better_of(found[0], *reinterpret_cast<const Best*>(in_block(reinterpret_cast<u8*>(found), other)));
    }
    out[blockIdx.x] = found[0].at;
  }
  if constexpr (PARTS > 1) meet_cluster();  // the first block may still read here
}
