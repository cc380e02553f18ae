// SPDX-License-Identifier: Apache-2.0
// Merges sorted runs, WAYS neighbours at a time, and keeps the first elements of each result. A thread has one element:
// its place is the number of those before it, in its own run and, by binary search, in the others. Runs hold the
// elements of a row in its order, so of equal keys that of the earlier run comes first. Generated before this text:
// Element, LARGEST, WAYS.
#include "backends/cuda/topk/topk.cuh"

struct Parameters {
  u32 count;                 // places in all runs
  u32 n, k;                  // elements of a row; wanted of it
  u32 span, kept;            // elements of a row that a run is of; that it has at most
  u32 kept_after, after;     // of a result at most; results of a row
  Divisor runs, run, inner;  // runs of a row; places of a run; neighbours of rows
};

extern "C" __global__ void __launch_bounds__(256)
    topk_merge(const Element* x, Element* values, i64* indices, const Key* keys, const u32* places, Key* merged_keys,
               u32* merged_places, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 run = divide(thread, p.run), i = thread - run * p.kept, row = divide(run, p.runs),
            mine = run - row * p.runs.divisor, first_run = run - mine, group = mine / WAYS;
  auto length = [&](u32 of) {
    const u32 covered = p.n - of * p.span < p.span ? p.n - of * p.span : p.span;
    return covered < p.kept ? covered : p.kept;
  };
  if (i >= length(mine)) return;
  const Key key = keys[thread];
  u32 to = i;
  for (u32 other = group * WAYS; other < (group + 1) * WAYS && other < p.runs.divisor && to < p.kept_after; ++other) {
    if (other == mine) continue;
    const Key* theirs = keys + u64(first_run + other) * p.kept;
    u32 low = 0, high = length(other);
    while (low < high) {
      const u32 middle = (low + high) / 2;
      const bool before = other < mine ? theirs[middle] <= key : theirs[middle] < key;
      if (before) low = middle + 1;
      else high = middle;
    }
    to += low;
  }
  if (to >= p.kept_after) return;
  const u32 place = places[thread];
  if (p.after == 1) {
    const u32 outer = divide(row, p.inner), beside = row - outer * p.inner.divisor, inner = p.inner.divisor;
    const i64 at = (i64(outer) * p.k + to) * inner + beside;
    values[at] = x[(i64(outer) * p.n + place) * inner + beside];
    indices[at] = place;
  } else {
    const u64 at = (u64(row) * p.after + group) * p.kept_after + to;
    merged_keys[at] = key;
    merged_places[at] = place;
  }
}
