// SPDX-License-Identifier: Apache-2.0
// Resizes images in the plain layout: a thread computes V neighbours of a row, in PLANES images of one channel, one
// after the other, since they are made of the same places. Generated before this text: PLANES, and what
// resize_taps.cuh wants.
#include "backends/cuda/resize/resize_taps.cuh"

struct Parameters {
  u32 count, planes;
  Divisor vectors, out_h;           // thread = (group of planes * out_h + h) * vectors + vector
  i64 in_stride[2], out_stride[2];  // in elements: from plane to plane, and along h
};

extern "C" __global__ void __launch_bounds__(256)
    resize_rows(const T* in, const Taps* taps, T* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 row = divide(thread, p.vectors), w = (thread - row * p.vectors.divisor) * V;
  const u32 group = divide(row, p.out_h), h = row - group * p.out_h.divisor;
  const Taps rows = load_taps(taps + h);
  Taps across[V];
#pragma unroll
  for (int v = 0; v < V; ++v) across[v] = load_taps(taps + p.out_h.divisor + w + v);
  for (u32 plane = group * PLANES; plane < p.planes && plane < group * PLANES + PLANES; ++plane) {
    const T* upper = in + plane * p.in_stride[0] + rows.index[0] * p.in_stride[1];
    const T* lower = in + plane * p.in_stride[0] + rows.index[1] * p.in_stride[1];
    const auto column = [&](i32 at) {
      const Number first = number_of(upper[at]);
      return sum_of<TAPS_H>(rows, first, TAPS_H == 2 ? number_of(lower[at]) : first);
    };
    Vec<T, V> results;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const Number left = column(across[v].index[0]);
      results.at[v] = as_stored(sum_of<TAPS_W>(across[v], left, TAPS_W == 2 ? column(across[v].index[1]) : left));
    }
    store_vector(out + plane * p.out_stride[0] + h * p.out_stride[1] + w, results);
  }
}
