// SPDX-License-Identifier: Apache-2.0
// Running sums and products along rows. Where threads share a row, each takes a few neighbours, and they go from tile
// to tile together. Totals of floats have 53 digits, as those of the reference. Generated before this text: PRODUCT,
// EXCLUSIVE, REVERSE, and what rows.cuh needs; rows run along one axis.
#include "backends/cuda/rows/rows.cuh"
#include "backends/cuda/support/warp_scan.cuh"

template <class T>
struct TotalOf {
  using type = u32;
};
template <>
struct TotalOf<float> {
  using type = double;
};
template <>
struct TotalOf<double> {
  using type = double;
};
template <>
struct TotalOf<i64> {
  using type = u64;
};
template <>
struct TotalOf<u64> {
  using type = u64;
};
using Total = TotalOf<Held<Input>>::type;

DEVICE Total joined(Total a, Total b) { return PRODUCT ? a * b : a + b; }
constexpr Total kNone = PRODUCT ? 1 : 0;

constexpr int kEach = 8;  // neighbours of a thread

#if __CUDA_ARCH__ >= 1200
#define BOUNDS __launch_bounds__(256, 3)  // without it 64 registers are taken, and one number spilled
#else
#define BOUNDS __launch_bounds__(256)
#endif

extern "C" __global__ void BOUNDS cumulative(const Input* in, Output* out, const RowParameters p) {
  const Row row = this_row(p);
  if (LANES < 32 && !row.active) return;
  const u64 n = row.active ? p.n : 0;
  const i64 in_by = p.reduced.strides[0][0], out_by = p.reduced.strides[1][0];
  const u32 warp = threadIdx.x / 32;
  Total before = kNone;  // all tiles so far
  for (u64 tile = 0; tile < n; tile += LANES * kEach) {
    const u64 first = tile + row.lane * kEach;
    Total mine[kEach], own = kNone;
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      mine[k] = first + k < n ? Total(hold(in[row.in + i64(REVERSE ? n - 1 - first - k : first + k) * in_by])) : kNone;
#pragma unroll
    for (int k = 0; k < kEach; ++k) own = joined(own, mine[k]);
    Total start = before;
    if constexpr (LANES == 1) before = joined(before, own);
    else {
      const Total through = through_lane(own, joined);
      const Total left = __shfl_up_sync(0xffffffffu, through, 1);
      if constexpr (LANES == 32) {
        before = joined(before, __shfl_sync(0xffffffffu, through, 31));
      } else {
        __shared__ Total of_warps[8];
        __syncthreads();  // the last use of it is over
        if (threadIdx.x % 32 == 31) of_warps[warp] = through;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < 8; ++w) {
          if (w == warp) start = before;
          before = joined(before, of_warps[w]);
        }
      }
      if (threadIdx.x % 32 > 0) start = joined(start, left);
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const Total through = joined(start, mine[k]);
      if (first + k < n)
        out[row.out + i64(REVERSE ? n - 1 - first - k : first + k) * out_by] =
            store_as<Output>(Held<Output>(EXCLUSIVE ? start : through));
      start = through;
    }
  }
}
