// SPDX-License-Identifier: Apache-2.0
// Updates that are combined with what is there, in their order: each block has a segment of the targets to itself. It
// goes through all positions, and keeps those that name a target of its own in a queue. All that meets in an element is
// applied by one thread, one after the other, so that the result is that of the reference, bit for bit. Generated
// before this text: Element, REDUCTION (as in ops::ScatterReduction).
#include "backends/cuda/scatter/scatter.cuh"
#include "backends/cuda/support/warp_scan.cuh"

constexpr int kAdd = 1, kMul = 2, kMax = 3, kMin = 4;

struct Parameters {
  u32 positions, targets;
  u32 segment;  // targets of a block
  u32 inner;    // elements of a target
};

using H = Held<Element>;
DEVICE H combine(H a, H b) {
  if constexpr (REDUCTION == kAdd) return hold(store_as<Element>(op::add(a, b)));
  if constexpr (REDUCTION == kMul) return hold(store_as<Element>(op::mul(a, b)));
  if constexpr (REDUCTION == kMax) return b > a || b != b ? b : a;
  if constexpr (REDUCTION == kMin) return b < a || b != b ? b : a;
}

constexpr u32 kEach = 8;  // positions of a thread in one go
constexpr u32 kTile = 256 * kEach, kQueue = 2 * kTile;

extern "C" __global__ void __launch_bounds__(256)
    scatter_ordered(const Element* updates, const u32* found, Element* out, const Parameters p) {
  wait_for_inputs();
  __shared__ u32 queue_targets[kQueue], queue_positions[kQueue], sums[8];
  const u32 first = blockIdx.x * p.segment, targets = p.targets - first < p.segment ? p.targets - first : p.segment;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 held_at = kNoTarget, queued = 0;
  H held = H(0);
  for (u32 tile = 0; tile < p.positions; tile += kTile) {
    const u32 at = tile + threadIdx.x * kEach;
    u32 mine[kEach], count = 0;
    if (at + kEach <= p.positions) {
#pragma unroll
      for (u32 k = 0; k < kEach; k += 4) {
        const auto four = load_vector<4>(found + at + k);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) mine[k + i] = four.at[i];
      }
    } else {
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) mine[k] = at + k < p.positions ? found[at + k] : kNoTarget;
    }
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) count += mine[k] - first < targets;
    // Where this thread's entries stand in the queue: behind those of the threads before it.
    const u32 through = sum_through_lane(count);
    if (lane == 31) sums[warp] = through;
    __syncthreads();
    u32 entry = queued + through - count;
#pragma unroll
    for (u32 w = 0; w < 8; ++w) {
      if (w < warp) entry += sums[w];
      queued += sums[w];
    }
#pragma unroll
    for (u32 k = 0; k < kEach; ++k)
      if (mine[k] - first < targets) {
        queue_targets[entry] = mine[k];
        queue_positions[entry++] = at + k;
      }
    __syncthreads();
    if (queued + kTile <= kQueue && tile + kTile < p.positions) continue;
    // An element belongs to the thread of its place modulo 256.
    for (u32 e = 0; e < queued; ++e) {
      const u32 begin = queue_targets[e] * p.inner, from = queue_positions[e] * p.inner;
      for (u32 j = (threadIdx.x - begin) % 256; j < p.inner; j += 256) {
        if (held_at != begin + j) {
          if (held_at != kNoTarget) out[held_at] = store_as<Element>(held);
          held_at = begin + j;
          held = hold(out[held_at]);
        }
        held = combine(held, hold(updates[from + j]));
      }
    }
    queued = 0;
    __syncthreads();
  }
  if (held_at != kNoTarget) out[held_at] = store_as<Element>(held);
}
