// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself, in channels_last: a thread computes V neighbouring channels of ROWS x PIXELS
// neighbours, so that it reads what their windows share once. It goes down the image row by row, and a row of results
// leaves as soon as its window has passed. Generated before this text (conv_depthwise.cc): A, B, Sum, KERNEL_H,
// KERNEL_W, STRIDE_H, STRIDE_W, PIXELS, ROWS, V, THREADS, BLOCKS (of an SM), and the epilogue (image_epilogue.h).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 count, channels;
  Divisor vectors, groups,
      bands;  // thread = ((n * bands + band of rows) * groups + group of pixels) * vectors + vector
  i32 height, width, out_height, out_width, pad_h, pad_w;
  NUMBERS
};

DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE u32 multiply_add(u32 a, u32 b, u32 c) { return a * b + c; }

// Small windows leave registers for the rows that follow: without a branch around it, loads begin early.
constexpr bool EARLY = ROWS > 1 && KERNEL_H* KERNEL_W <= 9;
// The weights stay in registers where they are few; otherwise each row reads its own.
constexpr bool RESIDENT = ROWS > 1 && KERNEL_H* KERNEL_W* V* int(sizeof(B)) <= 49 * 4;
DEVICE void load_factors(const B* weights, u32 channels, int kh, Vec<B, V> (&factors)[KERNEL_W]) {
#pragma unroll
  for (int kw = 0; kw < KERNEL_W; ++kw) factors[kw] = load_vector<V>(weights + (kh * KERNEL_W + kw) * channels);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_depthwise(const A* in, const B* weights, EXTRAS Output* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * THREADS + threadIdx.x;
  if (thread >= p.count) return;
  const u32 group = divide(thread, p.vectors), c = (thread - group * p.vectors.divisor) * V;
  const u32 band = divide(group, p.groups), n = divide(band, p.bands);
  const i32 w = i32(group - band * p.groups.divisor) * PIXELS, h = i32(band - n * p.bands.divisor) * ROWS;
  const i32 h0 = h * STRIDE_H - p.pad_h, w0 = w * STRIDE_W - p.pad_w;
  const A* x = in + ((i64(n) * p.height + h0) * p.width + w0) * p.channels + c;
  [[maybe_unused]] Vec<B, V> resident[RESIDENT ? KERNEL_H : 1][KERNEL_W];
  if constexpr (RESIDENT) {
#pragma unroll
    for (int kh = 0; kh < KERNEL_H; ++kh) load_factors(weights + c, p.channels, kh, resident[kh]);
  }
  [[maybe_unused]] ColumnExtras columns;
  COLUMN_EXTRAS(columns, c)
  Sum sums[ROWS][PIXELS][V] = {};
  constexpr int DOWN = (ROWS - 1) * STRIDE_H + KERNEL_H, ACROSS = (PIXELS - 1) * STRIDE_W + KERNEL_W;
#pragma unroll
  for (int down = 0; down < DOWN; ++down) {
    const bool inside = u32(h0 + down) < u32(p.height);
    if (inside || EARLY) {
      const A* line = x + down * i64(p.width * p.channels);
      Vec<A, V> values[ACROSS];
#pragma unroll
      for (int at = 0; at < ACROSS; ++at) {
        values[at] = {};
        if (inside && u32(w0 + at) < u32(p.width)) values[at] = load_vector<V>(line + i64(at) * p.channels);
      }
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        const int kh = down - row * STRIDE_H;
        if (kh < 0 || kh >= KERNEL_H) continue;
        Vec<B, V> factors[KERNEL_W];
        if constexpr (RESIDENT) {
#pragma unroll
          for (int kw = 0; kw < KERNEL_W; ++kw) factors[kw] = resident[kh][kw];
        } else {
          load_factors(weights + c, p.channels, kh, factors);
        }
#pragma unroll
        for (int pixel = 0; pixel < PIXELS; ++pixel)
#pragma unroll
          for (int kw = 0; kw < KERNEL_W; ++kw)
#pragma unroll
            for (int v = 0; v < V; ++v)
              sums[row][pixel][v] = multiply_add(Sum(hold(values[pixel * STRIDE_W + kw].at[v])),
                                                 Sum(hold(factors[kw].at[v])), sums[row][pixel][v]);
      }
    }
    const int past = down - (KERNEL_H - 1), done = past / STRIDE_H;  // the row whose window ends here
    if (past < 0 || past % STRIDE_H || h + done >= p.out_height) continue;
#pragma unroll
    for (int pixel = 0; pixel < PIXELS; ++pixel) {
      if (w + pixel >= p.out_width) break;
      const i64 at = ((i64(n) * p.out_height + h + done) * p.out_width + w + pixel) * p.channels + c;
      [[maybe_unused]] RowExtras extras;
      ROW_EXTRAS(extras, at)
      Finished<Output> results[V];
#pragma unroll
      for (int v = 0; v < V; ++v) results[v] = EPILOGUE(Acc(sums[done][pixel][v]), columns, extras, 0, v);
      store_results<Output, V>(out + at, results);
    }
  }
}
