// SPDX-License-Identifier: Apache-2.0
// The position of the best element of a long row, as arg_reduce.cu finds it, by a block of its own: UNROLL elements of
// a thread are on their way at once. Generated before this text: Input, MAX, LAST.
#include "backends/cuda/arg_reduce/best.cuh"

struct Parameters {
  i32 count;
};
constexpr int THREADS = 1024, UNROLL = 16;

extern "C" __global__ void __launch_bounds__(THREADS) arg_reduce_long(const Input* in, i64* out, const Parameters p) {
  __shared__ Best found[THREADS];
  wait_for_inputs();
  in += i64(blockIdx.x) * p.count;
  Best best{-1, H(0)};
#pragma unroll 1
  for (i32 begin = i32(threadIdx.x); begin < p.count; begin += THREADS * UNROLL) {
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
  if (threadIdx.x == 0) out[blockIdx.x] = found[0].at;
}
