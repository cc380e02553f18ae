// SPDX-License-Identifier: Apache-2.0
// Reductions of fp16, bf16 and f32 along one axis whose inner neighbours are kept, as channels are in channels_last: of
// the THREADS of a block, ACROSS lie along V neighbours each, at most a warp, and the others share what is reduced.
// Generated before this text (reduce.cc): KIND (sum, mean, max, min of ops::ReduceKind), THREADS, ACROSS, V, EXACT
// (sums have as many digits as f32; else as many as 16 bits need), prologue() and epilogue() as in reduce.cu, and what
// rows.cuh wants.
#include "backends/cuda/rows/rows.cuh"

constexpr int kSum = 0, kMean = 1, kMax = 2, kMin = 3;
constexpr int DOWN = THREADS / ACROSS, WARPS = THREADS / 32;

struct Parameters {
  u32 n, inner;  // elements that are reduced, and their stride, of which a block does ACROSS * V
  Divisor column_blocks;
};

struct Extreme {
  float best = __int_as_float(KIND == kMax ? 0xff800000 : 0x7f800000);
  DEVICE_MEMBER void add(float x) { best = KIND == kMax ? op::max(best, x) : op::min(best, x); }
  DEVICE_MEMBER void add(const Extreme& other) { add(other.best); }
  DEVICE_MEMBER double value() const { return double(best); }
};
using Total = decltype([] {
  if constexpr (KIND == kSum || KIND == kMean) return typename SumOf<float, EXACT>::type();
  else return Extreme();
}());

extern "C" __global__ void __launch_bounds__(THREADS) reduce_columns(const Input* in, Output* out, const Parameters p) {
  __shared__ Total shared[WARPS][V][ACROSS];  // neighbouring threads' side by side: others would meet in a few banks
  wait_for_inputs();
  const u32 outer = divide(u32(blockIdx.x), p.column_blocks),
            block = (blockIdx.x - outer * p.column_blocks.divisor) * (ACROSS * V);
  const u32 across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS, column = block + across * V;
  Total totals[V];
  if (column < p.inner) {
    const Input* from = in + i64(outer) * p.n * p.inner + column;
#pragma unroll 4
    for (u32 i = down; i < p.n; i += DOWN) {
      const auto some = load_vector<V>(from + i64(i) * p.inner);
#pragma unroll
      for (int v = 0; v < V; ++v) totals[v].add(float(prologue(hold(some.at[v]))));
    }
  }
#pragma unroll
  for (int mask = ACROSS; mask < 32; mask *= 2)
#pragma unroll
    for (int v = 0; v < V; ++v) totals[v].add(shuffle_xor(totals[v], mask));
  if (threadIdx.x % 32 < ACROSS) {
#pragma unroll
    for (int v = 0; v < V; ++v) shared[threadIdx.x / 32][v][across] = totals[v];
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < ACROSS * V; i += THREADS) {
    const u32 c = block + i % ACROSS * V + i / ACROSS;
    if (c >= p.inner) continue;
    Total total = shared[0][i / ACROSS][i % ACROSS];
    for (int w = 1; w < WARPS; ++w) total.add(shared[w][i / ACROSS][i % ACROSS]);
    const float result = float(KIND == kMean ? total.value() / double(p.n) : total.value());
    out[i64(outer) * p.inner + c] = store_as<Output>(epilogue(result));
  }
}
