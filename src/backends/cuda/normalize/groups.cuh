// SPDX-License-Identifier: Apache-2.0
// Groups of channels where channels lie innermost: a sample is [POSITIONS of the image, channels] in memory. A block
// takes TILE channels, which are whole groups, of a part of the positions: ACROSS threads lie along the tile, V
// channels each, and DOWN share the positions. Generated before this text: those constants, GROUP (channels of a
// group), CHUNKS (parts of the positions in group_sums.cu), CHANNELS, POSITIONS,
// FIXED_OF_CHANNELS (what the epilogue reads of all samples is the same for all positions), CENTER, EXACT, and what
// row_programs.cuh needs; a row is a sample.
#pragma once
#include "backends/cuda/rows/row_walk.cuh"

constexpr int GROUPS = TILE / GROUP;  // of a tile
using Statistic = decltype([] {
  if constexpr (EXACT) return double();
  else return float();
}());

constexpr Statistic kInverse = Statistic(1) / (Statistic(GROUP) * Statistic(POSITIONS));

// The mean of what a part of a sample has of a group, and the sum of the squares of what is left.
struct Moments {
  Statistic mean, squares;
};

struct Place {
  u32 sample, tile, channel, down;
  bool active;
};
DEVICE Place this_place() {
  Place place;
  place.sample = blockIdx.z;
  place.tile = blockIdx.y;
  place.channel = place.tile * TILE + threadIdx.x % ACROSS * V;
  place.down = threadIdx.x / ACROSS;
  place.active = place.down < DOWN;
  return place;
}

// A thread loads several positions before it uses the first: s, s + DOWN, ... as far as they are before `end`.
constexpr u32 AHEAD = 4;
DEVICE void read_positions(const RowParameters& p, const RowTensors& row, u32 s, u32 end, u32 channel,
                           Given (&given)[AHEAD]) {
#pragma unroll
  for (u32 i = 0; i < AHEAD; ++i)
    if (s + i * DOWN < end) read_given(p, row, i64(s + i * DOWN) * CHANNELS + channel, true, given[i]);
}

// A warp sums up; all lanes get the result.
DEVICE Statistic sum_of_warp(Statistic x) {
  return across_threads<32>(x, [](Statistic a, Statistic b) { return a + b; });
}
