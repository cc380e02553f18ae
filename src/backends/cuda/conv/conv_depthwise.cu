// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself, in channels_last: a thread computes V neighbouring channels of PIXELS
// neighbours along w, so that it reads what their windows share once. Generated before this text (conv_depthwise.cc):
// A, B, Sum, KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W, PIXELS, V, and the epilogue (image_epilogue.h).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 count, channels;
  Divisor vectors, groups, out_h;  // thread = ((n * out_h + h) * groups + group of pixels) * vectors + vector
  i32 height, width, out_width, pad_h, pad_w;
};

DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE u32 multiply_add(u32 a, u32 b, u32 c) { return a * b + c; }

extern "C" __global__ void __launch_bounds__(256, PIXELS == 4 ? 1 : 2)
    conv_depthwise(const A* in, const B* weights, EXTRAS Output* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 group = divide(thread, p.vectors), c = (thread - group * p.vectors.divisor) * V;
  const u32 row = divide(group, p.groups), n = divide(row, p.out_h);
  const i32 w = i32(group - row * p.groups.divisor) * PIXELS;
  const i32 h0 = i32(row - n * p.out_h.divisor) * STRIDE_H - p.pad_h, w0 = w * STRIDE_W - p.pad_w;
  const A* x = in + i64(n) * p.height * p.width * p.channels + c;
  Sum sums[PIXELS][V] = {};
#pragma unroll
  for (int kh = 0; kh < KERNEL_H; ++kh) {
    const i32 h = h0 + kh;
    if (u32(h) >= u32(p.height)) continue;
    const A* line = x + (i64(h) * p.width + w0) * p.channels;
    Vec<B, V> factors[KERNEL_W];
#pragma unroll
    for (int kw = 0; kw < KERNEL_W; ++kw) factors[kw] = load_vector<V>(weights + (kh * KERNEL_W + kw) * p.channels + c);
    constexpr int ACROSS = (PIXELS - 1) * STRIDE_W + KERNEL_W;
    Vec<A, V> values[ACROSS];
#pragma unroll
    for (int at = 0; at < ACROSS; ++at) {
      values[at] = {};
      if (u32(w0 + at) < u32(p.width)) values[at] = load_vector<V>(line + i64(at) * p.channels);
    }
#pragma unroll
    for (int pixel = 0; pixel < PIXELS; ++pixel)
#pragma unroll
      for (int kw = 0; kw < KERNEL_W; ++kw)
#pragma unroll
        for (int v = 0; v < V; ++v)
          sums[pixel][v] = multiply_add(Sum(hold(values[pixel * STRIDE_W + kw].at[v])), Sum(hold(factors[kw].at[v])),
                                        sums[pixel][v]);
  }
  [[maybe_unused]] ColumnExtras columns;
  COLUMN_EXTRAS(columns, c)
#pragma unroll
  for (int pixel = 0; pixel < PIXELS; ++pixel) {
    if (w + pixel >= p.out_width) break;
    const i64 at = (i64(row) * p.out_width + w + pixel) * p.channels + c;
    [[maybe_unused]] RowExtras extras;
    ROW_EXTRAS(extras, at)
    Finished<Output> results[V];
#pragma unroll
    for (int v = 0; v < V; ++v) results[v] = EPILOGUE(Acc(sums[pixel][v]), columns, extras, v);
    store_results<Output, V>(out + at, results);
  }
}
