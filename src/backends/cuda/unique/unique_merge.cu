// SPDX-License-Identifier: Apache-2.0
// Merges sorted runs of slices, two by two: a thread has one slice, whose place is the number of those before it in its
// own run and, by binary search, in the other. Of equal slices that of the earlier run, which has the smaller numbers,
// comes first. Generated before this text: Element.
#include "backends/cuda/unique/unique.cuh"

struct Parameters {
  Slices slices;
  u32 run;  // slices of a run; in runs of one the slices stand in their own order
};

extern "C" __global__ void __launch_bounds__(256)
    unique_merge(const Element* x, const i64* order, i64* merged, const Parameters p) {
  wait_for_inputs();
  const u32 at = blockIdx.x * 256 + threadIdx.x, n = p.slices.n;
  if (at >= n) return;
  const u32 run = at / p.run, other = (run ^ 1) * p.run;
  const u32 slice = p.run == 1 ? at : u32(order[at]);
  u32 low = 0, high = other >= n ? 0 : n - other < p.run ? n - other : p.run;
  while (low < high) {
    const u32 middle = (low + high) / 2, theirs = p.run == 1 ? other + middle : u32(order[other + middle]);
    const int by = compare_slices(x, p.slices, theirs, slice);
    if (by < 0 || (by == 0 && (run & 1))) low = middle + 1;
    else high = middle;
  }
  merged[(run / 2) * 2 * p.run + at % p.run + low] = slice;
}
