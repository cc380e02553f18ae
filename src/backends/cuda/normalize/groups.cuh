// SPDX-License-Identifier: Apache-2.0
// Groups of channels where channels lie innermost: a sample is [POSITIONS of the image, channels] in memory. A block
// takes TILE channels, which are whole groups, of a part of the positions: ACROSS threads lie along the tile, V
// channels each, and DOWN share the positions. Generated before this text: those constants, GROUP (channels of a
// group), CHUNKS (parts of the positions in group_sums.cu), CHANNELS, POSITIONS, CENTER, EXACT, and what
// row_programs.cuh needs; a row is a sample.
#pragma once
#include "backends/cuda/rows/row_programs.cuh"

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

// A warp sums up; all lanes get the result.
DEVICE Statistic sum_of_warp(Statistic x) {
  return across_threads<32>(x, [](Statistic a, Statistic b) { return a + b; });
}
