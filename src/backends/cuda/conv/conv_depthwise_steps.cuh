// SPDX-License-Identifier: Apache-2.0
// What the kernels of depthwise convolutions on the matrix units share: where a block's results are, how a row of
// inputs is multiplied and a row of results ends, and how each result is computed alone, if need be. An infinity beside
// a zero of a matrix makes NaN of its neighbours' sums. THREADS (of a block) is defined before it is included.
#pragma once

struct Parameters {
  u32 channels, batch, backwards;  // `backwards`: the last block comes first
  Divisor slabs, tiles, bands;     // block = ((n / IMAGES * bands + band) * tiles + tile) * slabs + slab
  i32 height, width, out_height, out_width, pad_h, pad_w;
  i32 band;  // rows of results
  NUMBERS
};

constexpr int RING = (KERNEL_H + STRIDE_H - 1) / STRIDE_H, PAIRS = (KERNEL_W + 1) / 2;
constexpr int TILE = 16 * GROUPS * WARPS / IMAGES, RESULTS = IMAGES * TILE;  // columns of results; those of all images
constexpr int COLUMNS = (TILE - 1) * STRIDE_W + KERNEL_W;                    // of inputs

struct Place {
  u32 n, c;  // the first image, the first channel of the slab
  i32 h, w;  // the first result
  i32 rows;  // of results
};
DEVICE Place place_of_block(const Parameters& p) {
  const u32 block = p.backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const u32 tile = divide(block, p.slabs), band = divide(tile, p.tiles), n = divide(band, p.bands);
  Place place;
  place.c = (block - tile * p.slabs.divisor) * (CHUNKS * 8);
  place.w = i32(tile - band * p.tiles.divisor) * TILE;
  place.h = i32(band - n * p.bands.divisor) * p.band;
  place.n = n * IMAGES;
  const i32 left = p.out_height - place.h;
  place.rows = left < p.band ? left : p.band;
  return place;
}

// Sums of the rows of results that are not ended, of which the one that begins in this step is sums[turn % RING].
using Sums = float[RING][GROUPS][4];

// Adds the products of a row of inputs to all rows of results whose windows it belongs to. The products of one row of
// results wait for each other, so those of other rows stand between them.
DEVICE void add_products(Sums& sums, int turn, int group, int down, const u32 (&pixels)[PAIRS][4],
                         const u32 (&factors)[KERNEL_H][KERNEL_W]) {
#pragma unroll
  for (int taps = 0; taps < PAIRS; ++taps)
#pragma unroll
    for (int ago = 0; ago < RING; ++ago) {
      const int kh = ago * STRIDE_H + down;
      if (kh >= KERNEL_H) continue;
      float (&sum)[4] = sums[(turn + RING - ago) % RING][group];
      if (2 * taps + 1 < KERNEL_W) multiply(sum, pixels[taps], factors[kh][2 * taps], factors[kh][2 * taps + 1]);
      else multiply_shallow(sum, pixels[taps][0], pixels[taps][1], factors[kh][2 * taps]);
    }
}

// Stores two channels of a pixel of the tile, whose row of results ends in this step. `seen` becomes NaN if a sum is
// infinite or NaN.
DEVICE void end_pixel(const float* ended, u32 pixel, i32 row, u32 c, bool active, const ColumnExtras& columns,
                      const Parameters& p, const Place& place, EXTRAS u8* staged, float& seen) {
  [[maybe_unused]] RowExtras extras;
  if constexpr (sizeof(RowExtras) > 1) {
    const u32 image = place.n + pixel / TILE;
    const i32 w = place.w + i32(pixel % TILE);
    if (w >= p.out_width || image >= p.batch || !active) return;
    ROW_EXTRAS(extras, ((i64(image) * p.out_height + place.h + row) * p.out_width + w) * p.channels + c)
  }
  Finished<Output> finished[2];
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    seen = __fmaf_rn(ended[v], 0.0f, seen);
    finished[v] = EPILOGUE(Acc(ended[v]), columns, extras, 0, v);
  }
  store_results<Output, 2>(reinterpret_cast<Output*>(staged), finished);
}

// One sum, of a pixel and a channel.
DEVICE float sum_alone(const A* in, const A* weights, const Parameters& p, u32 n, i32 h, i32 w, u32 c) {
  float sum = 0;
#pragma unroll 1
  for (int tap = 0; tap < KERNEL_H * KERNEL_W; ++tap) {
    const i32 y = h * STRIDE_H - p.pad_h + tap / KERNEL_W, x = w * STRIDE_W - p.pad_w + tap % KERNEL_W;
    if (u32(y) >= u32(p.height) || u32(x) >= u32(p.width)) continue;
    sum = __fmaf_rn(hold(in[((i64(n) * p.height + y) * p.width + x) * p.channels + c]),
                    hold(weights[tap * p.channels + c]), sum);
  }
  return sum;
}

// All results of a block, each by the products of its own window.
DEVICE void compute_alone(const A* in, const A* weights, EXTRAS Output* out, const Parameters& p, const Place& place) {
  constexpr u32 PAIRS_OF_PIXEL = CHUNKS * 4, OF_ROW = RESULTS * PAIRS_OF_PIXEL;
#pragma unroll 1
  for (u32 index = threadIdx.x; index < u32(place.rows) * OF_ROW; index += THREADS) {
    const u32 row = index / OF_ROW, pixel = index % OF_ROW / PAIRS_OF_PIXEL, image = place.n + pixel / TILE;
    const u32 c = place.c + index % PAIRS_OF_PIXEL * 2;
    const i32 h = place.h + i32(row), w = place.w + i32(pixel % TILE);
    if (w >= p.out_width || image >= p.batch || c >= p.channels) continue;
    const i64 at = ((i64(image) * p.out_height + h) * p.out_width + w) * p.channels + c;
    [[maybe_unused]] ColumnExtras columns;
    [[maybe_unused]] RowExtras extras;
    COLUMN_EXTRAS(columns, c)
    ROW_EXTRAS(extras, at)
    Finished<Output> finished[2];
#pragma unroll
    for (int v = 0; v < 2; ++v)
      finished[v] = EPILOGUE(Acc(sum_alone(in, weights, p, image, h, w, c + v)), columns, extras, 0, v);
    store_results<Output, 2>(out + at, finished);
  }
}
