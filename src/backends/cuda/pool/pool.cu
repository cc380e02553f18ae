// SPDX-License-Identifier: Apache-2.0
// One thread computes one element. Spatial axes are three; missing ones have size 1. Generated before this text: KIND
// (as in ops::PoolKind), INCLUDE_PADDING, INDICES, COLUMN_MAJOR, Index, Input, REDUCED and KEPT unused, LANES = 1.
#include "backends/cuda/rows/rows.cuh"

constexpr int kMax = 0, kAverage = 1, kLp = 2;

struct Parameters {
  u64 count;
  double power, inverse_power;
  Walk<5, 3> walk;  // n, c and the spatial axes of the output in its memory's order; strides: x's n and c, the output,
                    // x's channels counted plainly
  i32 position[5];  // of n, c, d, h, w among the walk's axes
  i32 in_size[3], kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
  i64 in_stride[3];     // of x's memory
  i64 plain_stride[3];  // of x counted in row-major order
};

extern "C" __global__ void __launch_bounds__(256, 4) pool(const Input* in, Input* out, i64* where, const Parameters p) {
  wait_for_inputs();
  using H = Held<Input>;
  using F = decltype([] {
    if constexpr (is_float<H>) return H();
    else return float();
  }());  // means are of floats
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  Index rest = Index(thread);
  i32 at[5];
#pragma unroll
  for (int axis = 4; axis >= 0; --axis) {
    const Index next = divide(rest, p.walk.sizes[axis]);
    at[axis] = i32(rest - next * Index(p.walk.sizes[axis].divisor));
    rest = next;
  }
  i64 base = 0, to = 0, plain = 0;
#pragma unroll
  for (int axis = 0; axis < 5; ++axis) {
    base += i64(at[axis]) * p.walk.strides[0][axis];
    to += i64(at[axis]) * p.walk.strides[1][axis];
    plain += i64(at[axis]) * p.walk.strides[2][axis];
  }
  i32 origin[3];
#pragma unroll
  for (int s = 0; s < 3; ++s) {
    i32 coordinate = 0;
#pragma unroll
    for (int axis = 0; axis < 5; ++axis)
      if (p.position[2 + s] == axis) coordinate = at[axis];
    origin[s] = coordinate * p.stride[s] - p.pad_begin[s];
  }
  typename SumOf<F>::type sum;
  H best = H(0);
  if constexpr (is_float<H>) best = H(-__longlong_as_double(0x7ff0000000000000ll));
  i64 best_at = -1;
  i32 valid = 0, counted = 0;
  for (i32 kd = 0; kd < p.kernel[0]; ++kd)
    for (i32 kh = 0; kh < p.kernel[1]; ++kh)
      for (i32 kw = 0; kw < p.kernel[2]; ++kw) {
        const i32 d = origin[0] + kd * p.dilation[0], h = origin[1] + kh * p.dilation[1],
                  w = origin[2] + kw * p.dilation[2];
        // With ceil_mode a window may reach beyond the padding: that does not count.
        counted +=
            d < p.in_size[0] + p.pad_end[0] && h < p.in_size[1] + p.pad_end[1] && w < p.in_size[2] + p.pad_end[2];
        if (d < 0 || d >= p.in_size[0] || h < 0 || h >= p.in_size[1] || w < 0 || w >= p.in_size[2]) continue;
        ++valid;
        const H v = hold(in[base + d * p.in_stride[0] + h * p.in_stride[1] + w * p.in_stride[2]]);
        if constexpr (KIND == kAverage) sum.add(F(v));
        if constexpr (KIND == kLp) sum.add(p.power == 2 ? F(v) * F(v) : op::pow(op::abs(F(v)), F(p.power)));
        if constexpr (KIND == kMax) {
          const i64 offset =
              INDICES ? plain + d * p.plain_stride[0] + h * p.plain_stride[1] + w * p.plain_stride[2] : 0;
          if constexpr (is_float<H>)
            if (v != v && best == best) best = v, best_at = offset;
          if (v > best || best_at < 0) {
            best = v;
            best_at = COLUMN_MAJOR ? plain + d + i64(p.in_size[0]) * (h + i64(p.in_size[1]) * w) : offset;
          }
        }
      }
  if constexpr (KIND == kMax) {
    out[to] = store_as<Input>(best);
    if (INDICES) where[to] = best_at;
  } else if constexpr (KIND == kAverage) {
    out[to] = store_as<Input>(H(F(sum.value()) / F(INCLUDE_PADDING ? counted : valid)));
  } else {
    const F total = F(sum.value());
    out[to] = store_as<Input>(H(p.power == 2 ? op::sqrt(total) : op::pow(total, F(p.inverse_power))));
  }
}
