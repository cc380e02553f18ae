// SPDX-License-Identifier: Apache-2.0
// What the kernels of first convolutions have in common. NUMBERS is generated before this text.
#pragma once
#include "backends/cuda/support/memory.cuh"

// As first_conv_parameters writes them (conv_first.h).
struct Parameters {
  u32 outputs, tiles;  // channels of the output
  i32 height, width, out_height, out_width, pad_h, pad_w;
  i32 conv_height, conv_width;  // before the pool
  u32 block_tiles;              // of a block, one behind the other, where sums are pooled
  Divisor tiles_across, tiles_down;
  NUMBERS
};

struct alignas(16) Quad {
  u32 at[4];
};

// Where the convolution's outputs of a tile begin.
struct TilePlace {
  u32 n;
  i32 h, w;
};
