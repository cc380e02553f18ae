// SPDX-License-Identifier: Apache-2.0
// Resizes images in channels_last: a thread computes V neighbouring channels of PIXELS neighbours along w, and keeps
// the two columns of the image that the last one was made of, since the next one is mostly made of them, too. Generated
// before this text: PIXELS, and what resize_taps.cuh wants.
#include "backends/cuda/resize/resize_taps.cuh"

struct Parameters {
  u32 count;
  Divisor vectors, groups, out_h;  // thread = ((n * out_h + h) * groups + group of pixels) * vectors + vector
  i32 out_w;
  i64 in_stride[3], out_stride[3];  // in elements: along n, h and w
};

// V channels of one column of the image.
struct Column {
  Number at[V];
};
DEVICE Column load_column(const T* upper, const T* lower, i64 offset, const Taps& rows) {
  const Vec<T, V> first = load_vector<V>(upper + offset);
  Vec<T, V> second = {};
  if constexpr (TAPS_H == 2) second = load_vector<V>(lower + offset);
  Column column;
#pragma unroll
  for (int v = 0; v < V; ++v) column.at[v] = sum_of<TAPS_H>(rows, number_of(first.at[v]), number_of(second.at[v]));
  return column;
}

extern "C" __global__ void __launch_bounds__(256)
    resize_channels(const T* in, const Taps* taps, T* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 group = divide(thread, p.vectors), c = (thread - group * p.vectors.divisor) * V;
  const u32 row = divide(group, p.groups), n = divide(row, p.out_h), h = row - n * p.out_h.divisor;
  const i32 w = i32(group - row * p.groups.divisor) * PIXELS;
  const Taps rows = load_taps(taps + h);
  const T* upper = in + i64(n) * p.in_stride[0] + rows.index[0] * p.in_stride[1] + c;
  const T* lower = in + i64(n) * p.in_stride[0] + rows.index[1] * p.in_stride[1] + c;
  T* to = out + i64(n) * p.out_stride[0] + h * p.out_stride[1] + w * p.out_stride[2] + c;
  const Taps* of_column = taps + p.out_h.divisor + w;
  i32 left = -1, right = -1;  // the columns that are kept
  Column columns[2] = {};
#pragma unroll
  for (int pixel = 0; pixel < PIXELS; ++pixel) {
    if (w + pixel >= p.out_w) break;
    const Taps across = load_taps(of_column + pixel);
    if (across.index[0] != left) {
      left = across.index[0];
      if (left == right) columns[0] = columns[1];
      else columns[0] = load_column(upper, lower, left * p.in_stride[2], rows);
    }
    if (TAPS_W == 2 && across.index[1] != right) {
      right = across.index[1];
      if (right == left) columns[1] = columns[0];
      else columns[1] = load_column(upper, lower, right * p.in_stride[2], rows);
    }
    Vec<T, V> results;
#pragma unroll
    for (int v = 0; v < V; ++v) results.at[v] = as_stored(sum_of<TAPS_W>(across, columns[0].at[v], columns[1].at[v]));
    store_vector(to + pixel * p.out_stride[2], results);
  }
}
