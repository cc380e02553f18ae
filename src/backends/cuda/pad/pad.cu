// SPDX-License-Identifier: Apache-2.0
// One thread writes one element. Generated before this text: Element (by size), RANK, Index, KIND (as in ops::PadKind),
// HAS_VALUE.
#include "backends/cuda/support/memory.cuh"

constexpr int kConstant = 0, kEdge = 1, kReflect = 2, kWrap = 3;

struct Parameters {
  u64 count;
  Walk<RANK, 2> walk;  // of the output: input strides, output strides
  i64 before[RANK], low[RANK],
      size[RANK];  // the part of the input that is seen begins at `low` and has `size` elements
};

DEVICE i64 wrapped(i64 a, i64 n) { return ((a % n) + n) % n; }

extern "C" __global__ void __launch_bounds__(256)
    pad(const Element* in, const Element* value, Element* out, const Parameters p) {
  wait_for_inputs();
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  Index rest = Index(thread);
  i64 from = 0, to = 0;
  bool inside = true;
#pragma unroll
  for (int axis = RANK - 1; axis >= 0; --axis) {
    const Index next = axis > 0 ? divide(rest, p.walk.sizes[axis]) : Index(0);
    const i64 here = i64(rest - next * Index(p.walk.sizes[axis].divisor)), n = p.size[axis];
    rest = next;
    i64 position = here - p.before[axis] - p.low[axis];
    if (position < 0 || position >= n) {
      if constexpr (KIND == kConstant) inside = false;
      if constexpr (KIND == kEdge) position = position < 0 ? 0 : n - 1;
      if constexpr (KIND == kWrap) position = wrapped(position, n);
      if constexpr (KIND == kReflect) {
        position = n == 1 ? 0 : wrapped(position, 2 * (n - 1));
        if (position >= n) position = 2 * (n - 1) - position;
      }
    }
    from += (position + p.low[axis]) * p.walk.strides[0][axis];
    to += here * p.walk.strides[1][axis];
  }
  Element x = HAS_VALUE ? *value : Element(0);
  if (inside) x = in[from];
  out[to] = x;
}
