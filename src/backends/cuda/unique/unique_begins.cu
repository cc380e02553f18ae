// SPDX-License-Identifier: Apache-2.0
// Whether a place in the order of the slices begins a group: equal slices stand beside each other there, the earliest
// first. Generated before this text: Element.
#include "backends/cuda/unique/unique.cuh"

extern "C" __global__ void __launch_bounds__(256)
    unique_begins(const Element* x, const i64* order, u8* begins, const Slices s) {
  wait_for_inputs();
  const u32 at = blockIdx.x * 256 + threadIdx.x;
  if (at >= s.n) return;
  begins[at] = at == 0 || compare_slices(x, s, u32(order[at - 1]), u32(order[at])) != 0;
}
