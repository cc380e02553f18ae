// SPDX-License-Identifier: Apache-2.0
// One thread computes one element: a weighted sum over the taps of the axes that are resized, or one element moved.
// Generated before this text: RANK, Index, Input, Wide (what sums are computed in), RESIZED (axes), TAPS of each {..},
// AXIS of each in the walk {..}, UNROLL (taps of an axis), NEAREST, ROUND (to the nearest integer), low and high of an
// integer.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u64 count;
  double extrapolation;
  Walk<RANK, 2> walk;   // of the output: input strides (0 along resized axes), output strides
  i64 stride[RESIZED];  // of the input along resized axes
  u32 table[RESIZED];   // where an axis's table starts: index (-1 in the first tap: extrapolated) and weight for each
                        // tap
};
struct Tap {
  i32 index;
  i32 padding;
  double weight;
};

template <int DEPTH>
DEVICE Wide interpolate(const Input* in, const Tap* taps, const Parameters& p, const u32 (&at)[RESIZED], i64 offset) {
  if constexpr (DEPTH == RESIZED) {
    return Wide(hold(in[offset]));
  } else {
    const Tap* mine = taps + p.table[DEPTH] + at[DEPTH] * TAPS[DEPTH];
    Wide sum = 0;
#pragma unroll UNROLL
    for (int t = 0; t < TAPS[DEPTH]; ++t) {
      const Tap tap = mine[t];
      if (tap.index >= 0)
        sum += Wide(tap.weight) * interpolate<DEPTH + 1>(in, taps, p, at, offset + tap.index * p.stride[DEPTH]);
    }
    return sum;
  }
}

extern "C" __global__ void __launch_bounds__(256)
    resize(const Input* in, const Tap* taps, Input* out, const Parameters p) {
  wait_for_inputs();
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  Index rest = Index(thread);
  i64 from = 0, to = 0;
  u32 at[RESIZED];
#pragma unroll
  for (int axis = RANK - 1; axis >= 0; --axis) {
    const Index next = axis > 0 ? divide(rest, p.walk.sizes[axis]) : Index(0);
    const Index here = rest - next * Index(p.walk.sizes[axis].divisor);
    from += i64(here) * p.walk.strides[0][axis];
    to += i64(here) * p.walk.strides[1][axis];
#pragma unroll
    for (int r = 0; r < RESIZED; ++r)
      if (AXIS[r] == axis) at[r] = u32(here);
    rest = next;
  }
  if constexpr (NEAREST) {
#pragma unroll
    for (int r = 0; r < RESIZED; ++r) from += i64(taps[p.table[r] + at[r]].index) * p.stride[r];
    out[to] = in[from];
  } else {
    Wide value = interpolate<0>(in, taps, p, at, from);
#pragma unroll
    for (int r = 0; r < RESIZED; ++r)
      if (taps[p.table[r] + at[r] * TAPS[r]].index < 0) value = Wide(p.extrapolation);
    if constexpr (ROUND) {
      const double nearest = ::rint(double(value));
      out[to] = op::cast<Input>(nearest);
    } else {
      out[to] = store_as<Input>(Held<Input>(value));
    }
  }
}
