// SPDX-License-Identifier: Apache-2.0
// Which elements of a tile are not 0. A block has a tile, and a thread a few neighbours of it, so that what is found
// stays in its order. Generated before this text: Word, an element's bits; MASK, those that are 0 in a 0 of either
// sign; kTile.
#pragma once
#include "backends/cuda/scan/scan.cuh"

constexpr u32 kEach = kTile / 256;

DEVICE u32 first_of_thread() { return blockIdx.x * kTile + threadIdx.x * kEach; }
// Bit k: of the thread's elements the k-th is not 0.
DEVICE u32 found_by_thread(const Word* x, u32 count) {
  const u32 first = first_of_thread();
  u32 found = 0;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k)
    if (first + k < count && (x[first + k] & MASK) != 0) found |= 1u << k;
  return found;
}
// How many the threads before this one have found; `all`: those of the tile.
DEVICE u32 found_before(u32 found, u32& all) {
  u32 number = 0;
#pragma unroll
  for (u32 k = 0; k < kEach; ++k) number += found >> k & 1;
  return sum_before<8>(number, all);
}
