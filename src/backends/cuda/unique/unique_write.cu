// SPDX-License-Identifier: Apache-2.0
// Writes the groups. A thread has one element of x, and the slice and the group of that number. Generated before this
// text: Element; SORTED, whether groups stay in the order of their numbers, or have places of their own.
#include "backends/cuda/unique/unique.cuh"

struct Parameters {
  Slices slices;
  u32 elements;  // of x
};

extern "C" __global__ void __launch_bounds__(256)
    unique_write(const Element* x, const i64* order, const u32* begins_at, const u32* group_of, const u8* is_earliest,
                 const u32* place_of, const i64* total, Element* values, i64* firsts, i64* inverse, i64* counts,
                 const Parameters p) {
  wait_for_inputs();
  const u32 i = blockIdx.x * 256 + threadIdx.x, n = p.slices.n, groups = u32(*total);
  const auto place = [&](u32 group) { return SORTED ? group : place_of[group]; };
  if (i < n) inverse[i] = place(group_of[i]);
  if (i < groups) {
    const u32 begin = begins_at[i], end = i + 1 < groups ? begins_at[i + 1] : n, to = place(i);
    firsts[to] = order[begin];
    counts[to] = end - begin;
  }
  if (i >= p.elements) return;
  const u32 run = i / p.slices.inner, inner = i - run * p.slices.inner, outer = run / n, slice = run - outer * n;
  if (is_earliest[slice]) values[(u64(outer) * groups + place(group_of[slice])) * p.slices.inner + inner] = x[i];
}
