// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself on the matrix units, of fp16 and bf16 in channels_last. The sums of 16 pixels
// and 8 channels are those of 16 pixels by a diagonal matrix of 8 weights for each tap, and mma.sync takes two taps at
// a time. An eighth of its work counts, which is still more than the other units have when they have converted their
// operands to floats, and those have the epilogue to do.
//
// A block goes down some columns of an image (of several images, where these are narrow), GROUPS times 16 for each
// warp, and a slab of channels, 8 for each warp. cp.async brings rows of inputs to a ring of STAGES in shared memory.
// Each row is read from there once for all rows of results whose windows it belongs to: RING of them are begun and not
// ended. A row leaves through shared memory, so that stores are wide.
//
// An infinity beside a zero of the matrix makes NaN of its neighbours' sums. So a block that met NaN computes all of
// its results once more, each alone.
//
// Generated before this text (conv_depthwise_matrix.cc): A (the type of inputs and weights), MATRIX (mma.cuh),
// KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W, CHUNKS (of 8 channels, in a slab), GROUPS, WARPS (along columns), IMAGES,
// STAGES, BLOCKS (of an SM), EXTRA_NAMES and the epilogue (image_epilogue.h) for two channels.
#include "backends/cuda/support/memory.cuh"
using Sum = float;
#include "backends/cuda/support/mma.cuh"

constexpr int THREADS = 32 * CHUNKS * WARPS;
#include "backends/cuda/conv/conv_depthwise_steps.cuh"

// Columns of a row lie by their remainder of the stride: then eight that a window's tap reads are neighbours, and as
// the pitch is odd they are in different banks.
constexpr int PER_PHASE = (COLUMNS + STRIDE_W - 1) / STRIDE_W, PITCH = CHUNKS | 1;
constexpr int IMAGE = PER_PHASE * STRIDE_W * PITCH * 16, ROW = IMAGES * IMAGE, STAGE = STRIDE_H * ROW;  // bytes
constexpr int PLACES = STRIDE_H * IMAGES * COLUMNS * CHUNKS, LOADS = (PLACES + THREADS - 1) / THREADS;
// Results on their way: a row of them for each pixel, again of an odd pitch.
constexpr int OUT_PITCH = CHUNKS * 8 * int(sizeof(Output)) | 16, OUT_STAGE = RESULTS * OUT_PITCH;
constexpr int OUT_PLACES = RESULTS * CHUNKS, OUT_STORES = (OUT_PLACES + THREADS - 1) / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_depthwise(const A* in, const A* weights, EXTRAS Output* out, const Parameters p) {
  u8* const shared = dynamic_shared();
  u8* const results = shared + STAGES * STAGE;
  u32* const met_nan = reinterpret_cast<u32*>(results + 2 * OUT_STAGE);
  const Place place = place_of_block(p);
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, chunk = warp % CHUNKS, across = warp / CHUNKS;
  const u32 row_of_8 = lane / 4, pair = lane % 4 * 2;  // of a matrix of 8 pixels by 8 channels
  // Where a slab ends behind the last channel, its last warps multiply zeros by zeros.
  const u32 first_channel = place.c + chunk * 8;
  [[maybe_unused]] const u32 c = first_channel + pair;
  const bool active = first_channel < p.channels;
  if (threadIdx.x == 0) *met_nan = 0;

  u32 factors[KERNEL_H][KERNEL_W];
#pragma unroll
  for (int kh = 0; kh < KERNEL_H; ++kh)
#pragma unroll
    for (int kw = 0; kw < KERNEL_W; ++kw) {
      factors[kh][kw] = 0;
      if (active && row_of_8 / 2 * 2 == pair)
        factors[kh][kw] =
            u32(reinterpret_cast<const u16*>(weights)[(kh * KERNEL_W + kw) * p.channels + first_channel + row_of_8])
            << row_of_8 % 2 * 16;
    }
  wait_for_inputs();
  [[maybe_unused]] ColumnExtras columns = {};
  if (active) { COLUMN_EXTRAS(columns, c) }

  // What this thread copies of each step: where from, in the first, and whether there is such a column.
  i32 from[LOADS];
  u32 to[LOADS], columns_inside = 0;
  const i32 h0 = place.h * STRIDE_H - p.pad_h, w0 = place.w * STRIDE_W - p.pad_w, line = p.width * i32(p.channels);
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    const u32 index = i * THREADS + threadIdx.x, column_index = index / CHUNKS, part = index % CHUNKS;
    const u32 image_index = column_index / COLUMNS, column = column_index % COLUMNS;
    const u32 down = image_index / IMAGES, image = image_index % IMAGES;
    const i32 x = w0 + i32(column);
    columns_inside |= u32(u32(x) < u32(p.width) && place.n + image < p.batch && place.c + part * 8 < p.channels) << i;
    from[i] =
        ((i32(place.n + image) * p.height + h0 + i32(down)) * p.width + x) * i32(p.channels) + i32(place.c + part * 8);
    to[i] = shared_address(shared) + down * ROW + image * IMAGE +
            ((column % STRIDE_W * PER_PHASE + column / STRIDE_W) * PITCH + part) * 16;
  }
  const i32 steps = place.rows + RING - 1;
  u32 filled = 0;  // the offset of the stage that is loaded next
  const auto load = [&](i32 step) {
    if (step < steps) {
#pragma unroll
      for (int i = 0; i < LOADS; ++i) {
        const u32 index = i * THREADS + threadIdx.x;
        if (index >= PLACES) break;
        const i32 down = STRIDE_H == 1 ? 0 : i32(index / (CHUNKS * COLUMNS * IMAGES));
        const bool inside = (columns_inside >> i & 1) && u32(h0 + step * STRIDE_H + down) < u32(p.height);
        copy_chunk(to[i] + filled, in + (inside ? from[i] + step * STRIDE_H * line : 0), inside);
      }
    }
    close_group();
    filled = filled == (STAGES - 1) * STAGE ? 0 : filled + STAGE;
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) load(i);

  // What this thread stores of each row: where to, in the first one; beyond the output's ends nothing.
  i32 place_out[OUT_STORES];
#pragma unroll
  for (int i = 0; i < OUT_STORES; ++i) {
    const u32 index = i * THREADS + threadIdx.x, pixel = index / CHUNKS, part = index % CHUNKS;
    const u32 image = place.n + pixel / TILE, channel = place.c + part * 8;
    const i32 w = place.w + i32(pixel % TILE);
    const bool inside = index < OUT_PLACES && w < p.out_width && channel < p.channels && image < p.batch;
    place_out[i] =
        inside ? ((i32(image) * p.out_height + place.h) * p.out_width + w) * i32(p.channels) + i32(channel) : -1;
  }
  const auto store_row = [&](i32 row) {
#pragma unroll
    for (int i = 0; i < OUT_STORES; ++i) {
      const u32 index = i * THREADS + threadIdx.x;
      if (place_out[i] < 0) continue;
      const u8* const staged =
          results + index / CHUNKS * OUT_PITCH + index % CHUNKS * (8 * u32(sizeof(Output))) + (row & 1) * OUT_STAGE;
      store_vector(out + (place_out[i] + row * p.out_width * i32(p.channels)),
                   *reinterpret_cast<const Vec<Output, 8>*>(staged));
    }
  };

  // Where this lane's row of the first four matrices lies: pixels 0 to 7 and 8 to 15 of a tap, and of the next one.
  // Where images are narrow, the second eight pixels are of the next image.
  constexpr int BESIDE = IMAGES > 1 ? IMAGE : 8 * PITCH * 16;
  constexpr int NEXT_TAP = (STRIDE_W == 1 ? 1 : PER_PHASE) * PITCH * 16,
                NEXT_PAIR = (STRIDE_W == 1 ? 2 : 1) * PITCH * 16;
  static_assert(STRIDE_W <= 2, "two phases");
  const u32 here =
      shared_address(shared) + across * GROUPS * 2 * BESIDE + lane / 8 % 2 * BESIDE + (lane % 8 * PITCH + chunk) * 16;
  u32 stage = here;
  const u32 second = lane / 16 * NEXT_TAP;
  u8* const staged = results + (across * GROUPS * 16 + row_of_8) * OUT_PITCH + (chunk * 8 + pair) * sizeof(Output);
  float seen = 0;  // NaN once a sum was infinite or NaN
  Sums sums = {};
  for (i32 base = 0; base < steps; base += RING) {
#pragma unroll
    for (int turn = 0; turn < RING; ++turn) {
      const i32 at = base + turn;  // the row of results that begins here
      if (at >= steps) break;
      wait_for_groups<STAGES - 2>();
      __syncthreads();
      load(at + STAGES - 1);
      if (at >= RING) store_row(at - RING);  // a step after it has ended
#pragma unroll
      for (int group = 0; group < GROUPS; ++group)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[turn][group][i] = 0;
#pragma unroll
      for (int down = 0; down < STRIDE_H; ++down)
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
          u32 pixels[PAIRS][4];
#pragma unroll
          for (int taps = 0; taps < PAIRS; ++taps) {
            const u32 from = stage + down * ROW + group * 2 * BESIDE + taps * NEXT_PAIR;
            if (2 * taps + 1 < KERNEL_W) load_matrices(pixels[taps], from + second);
            else load_two_matrices(pixels[taps], from);
          }
          add_products(sums, turn, group, down, pixels, factors);
        }
      stage = stage == here + (STAGES - 1) * STAGE ? here : stage + STAGE;
      const i32 row = at - (RING - 1);  // ends here
      if (row < 0) continue;
#pragma unroll
      for (int group = 0; group < GROUPS; ++group)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const u32 pixel = (across * GROUPS + group) * 16 + half * 8 + row_of_8;
          end_pixel(&sums[(turn + 1) % RING][group][half * 2], pixel, row, c, active, columns, p, place,
                    EXTRA_NAMES staged + (row & 1) * OUT_STAGE + (group * 2 + half) * 8 * OUT_PITCH, seen);
        }
    }
  }
  if (seen != seen) *met_nan = 1;
  __syncthreads();
  store_row(place.rows - 1);
  if (*met_nan) {
    __syncthreads();
    compute_alone(in, weights, EXTRA_NAMES out, p, place);
  }
}
