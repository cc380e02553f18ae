// SPDX-License-Identifier: Apache-2.0
// Convolutions with few channels in a group, where a product of matrices would be mostly padding: a thread computes V
// neighbouring channels (depthwise) or one element. Generated before this text (conv_direct.cc): A, B, Output, Acc,
// Sum, V, DEPTHWISE (a group has one channel in and one out), ROW_RANK, OPERANDS, EXTRAS, EPILOGUE(x) (of the sum x at
// `at` and channel c).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 rows;
  Divisor columns;              // groups of V channels of the output
  Divisor per_group;            // output channels of a group
  Divisor out_w, out_h, out_d;  // row = ((n * out_d + d) * out_h + h) * out_w + w
  i32 channels, kernel[3], stride[3], pad[3], dilation[3], size[3];
  i64 batch_stride, spatial_stride[3], channel_stride;  // of x
  i64 b_column, b_tap, b_k;                             // of the weights
  i64 column_stride[OPERANDS];
  Walk<ROW_RANK, OPERANDS> row_walk;
  NUMBERS
};

DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
template <class I>
DEVICE I multiply_add(I a, I b, I c) {
  return a * b + c;
}

extern "C" __global__ void __launch_bounds__(256, 2)
    conv_direct(const A* a, const B* b, EXTRAS Output* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  const u32 row = divide(thread, p.columns), column = (thread - row * p.columns.divisor) * V;
  if (row >= p.rows) return;
  const u32 rh = divide(row, p.out_w), rd = divide(rh, p.out_h), n = divide(rd, p.out_d);
  const i32 d0 = i32(rd - n * p.out_d.divisor) * p.stride[0] - p.pad[0],
            h0 = i32(rh - rd * p.out_h.divisor) * p.stride[1] - p.pad[1],
            w0 = i32(row - rh * p.out_w.divisor) * p.stride[2] - p.pad[2];
  const u32 first = DEPTHWISE ? column : divide(column, p.per_group) * u32(p.channels);
  const A* x = a + i64(n) * p.batch_stride + i64(first) * p.channel_stride;
  const B* weights = b + i64(column) * p.b_column;
  Sum sums[V] = {};
  for (i32 kd = 0; kd < p.kernel[0]; ++kd) {
    const i32 d = d0 + kd * p.dilation[0];
    if (u32(d) >= u32(p.size[0])) continue;
    for (i32 kh = 0; kh < p.kernel[1]; ++kh) {
      const i32 h = h0 + kh * p.dilation[1];
      if (u32(h) >= u32(p.size[1])) continue;
      for (i32 kw = 0; kw < p.kernel[2]; ++kw) {
        const i32 w = w0 + kw * p.dilation[2];
        if (u32(w) >= u32(p.size[2])) continue;
        const A* at = x + d * p.spatial_stride[0] + h * p.spatial_stride[1] + w * p.spatial_stride[2];
        const B* tap = weights + ((kd * p.kernel[1] + kh) * p.kernel[2] + kw) * p.b_tap;
        if constexpr (DEPTHWISE) {
          const auto values = load_vector<V>(at);
          const auto factors = load_vector<V>(tap);  // packed [taps, channels]
#pragma unroll
          for (int v = 0; v < V; ++v)
            sums[v] = multiply_add(Sum(hold(values.at[v])), Sum(hold(factors.at[v])), sums[v]);
        } else {
          for (i32 c = 0; c < p.channels; ++c)
            sums[0] = multiply_add(Sum(hold(at[c * p.channel_stride])), Sum(hold(tap[c * p.b_k])), sums[0]);
        }
      }
    }
  }
  i64 at[OPERANDS];
  walk_offsets<ROW_RANK, OPERANDS>(p.row_walk, row, at);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const u32 c = column + v;
    out[at[0] + i64(c) * p.column_stride[0]] = store_as<Output>(EPILOGUE(Acc(sums[v])));
  }
}
