// SPDX-License-Identifier: Apache-2.0
// Convolutions of each channel by itself on the matrix units, as conv_depthwise_matrix.cu computes them, for GPUs with
// TMA (compute capability 9.0 and later). One warp of a block, the producer, asks for rows of inputs and gives away
// those of results; the others, consumers, have no positions to compute and never wait for each other. What lies
// outside of an image comes as zeros.
//
// Boxes of an even number of chunks are swizzled by as many bytes as these are, and an odd number needs none: either
// way eight neighbouring columns of a chunk lie in different banks.
//
// Generated before this text (conv_depthwise_matrix.cc): A (the type of inputs and weights), MATRIX (mma.cuh),
// KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W, CHUNKS (of 8 channels, in a slab: 4, 8 or an odd number), GROUPS, WARPS
// (along columns), IMAGES, STAGES (a multiple of RING), BLOCKS (of an SM), EXTRA_NAMES and the epilogue
// (image_epilogue.h) for two channels.
#include "backends/cuda/support/memory.cuh"
using Sum = float;
#include "backends/cuda/support/mma.cuh"

constexpr int CONSUMERS = CHUNKS * WARPS, THREADS = 32 * (CONSUMERS + 1);
#include "backends/cuda/conv/conv_depthwise_steps.cuh"

static_assert(STAGES % RING == 0, "which sums a step adds to follows from its stage");
constexpr int PIXEL = CHUNKS * 16, BOX = IMAGES * STRIDE_H * COLUMNS * PIXEL;  // bytes
constexpr int STAGE = (BOX + 1023) / 1024 * 1024, OUT_STAGE = (RESULTS * PIXEL + 1023) / 1024 * 1024;
static_assert(sizeof(Output) == 2, "chunks of results are as wide as those of inputs");
constexpr int BARRIERS_AT = STAGES * (STAGE + OUT_STAGE);
static_assert(CHUNKS % 2 == 1 || CHUNKS == 4 || CHUNKS == 8, "a swizzle of TMA");
DEVICE u32 swizzled(u32 byte) { return CHUNKS % 2 == 0 ? byte ^ (byte >> 7 & (CHUNKS - 1)) << 4 : byte; }

// Bytes from the beginning of the shared memory. A step reads one stage and writes one of results. It may begin when
// its inputs are `full`, which are asked for when both stages are free, and ends when all consumers are `done`: two
// mbarriers for each stage.
DEVICE u32 inputs_at(int stage) { return stage * STAGE; }
DEVICE u32 results_at(int stage) { return STAGES * STAGE + stage * OUT_STAGE; }
DEVICE u32 full_at(int stage) { return BARRIERS_AT + stage * 8; }
DEVICE u32 done_at(int stage) { return BARRIERS_AT + (STAGES + stage) * 8; }

struct Rows {
  i32 h, steps;  // the first row of inputs
};
// Whether rows of a step lie in the image.
DEVICE bool reads(const Rows& rows, i32 step, const Parameters& p) {
  const i32 h = rows.h + step * STRIDE_H;
  return STRIDE_H == 1 ? u32(h) < u32(p.height) : h + (STRIDE_H - 1) >= 0 && h < p.height;
}

DEVICE void produce(u32 shared, const TensorMap& map_in, const TensorMap& map_out, const Parameters& p,
                    const Place& place, const Rows& rows) {
  const i32 w0 = place.w * STRIDE_W - p.pad_w;
  const auto load = [&](i32 step, u32 stage) {
    const u32 barrier = shared + full_at(stage);
    if (!reads(rows, step, p)) return arrive(barrier);
    arrive_expecting(barrier, BOX);
    load_box(shared + inputs_at(stage), map_in, i32(place.c), w0, rows.h + step * STRIDE_H, i32(place.n), barrier);
  };
#pragma unroll 1
  for (i32 step = 0; step < STAGES - 1 && step < rows.steps; ++step) load(step, step);
  u32 stage = 0, before = STAGES - 1, phase = 0;
#pragma unroll 1
  for (i32 ended = 0; ended < rows.steps; ++ended) {
    // The stage of the step before this one is free when its results have been read, which began a step ago.
    if (ended > 0) {
      wait_for_stores();
      if (ended + STAGES - 1 < rows.steps) load(ended + STAGES - 1, before);
    } else if (STAGES - 1 < rows.steps) load(STAGES - 1, before);
    wait_for_phase(shared + done_at(stage), phase);
    const i32 row = ended - (RING - 1);
    if (row >= 0) {
      publish_shared();  // what all consumers wrote
      store_box(map_out, i32(place.c), place.w, place.h + row, i32(place.n), shared + results_at(stage));
      close_stores();
    }
    before = stage;
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
  wait_for_stores();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_depthwise(const A* in, const A* weights, EXTRAS Output* out, const __grid_constant__ TensorMap map_in,
                   const __grid_constant__ TensorMap map_out, const __grid_constant__ Parameters p) {
  u8* const in_shared = dynamic_shared();
  u32* const met_nan = reinterpret_cast<u32*>(in_shared + BARRIERS_AT + 16 * STAGES);
  const u32 shared = shared_address(in_shared);
  const Place place = place_of_block(p);
  const Rows rows{place.h * STRIDE_H - p.pad_h, place.rows + RING - 1};
  // Where a slab ends behind the last channel, its last warps have nothing to do.
  const u32 chunks_left = (p.channels - place.c) / 8, chunks = chunks_left < CHUNKS ? chunks_left : CHUNKS;
  const u32 lane = threadIdx.x % 32, warp = same_for_warp(threadIdx.x / 32);
  if (threadIdx.x == 0) {
    *met_nan = 0;
    for (int i = 0; i < STAGES; ++i)
      barrier_init(shared + full_at(i), 1), barrier_init(shared + done_at(i), chunks * WARPS);
    publish_barriers();
  }
  __syncthreads();
  if (warp == CONSUMERS) {
    wait_for_inputs();
    if (lane == 0) produce(shared, map_in, map_out, p, place, rows);
  } else if (const u32 chunk = warp % CHUNKS; chunk < chunks) {
    const u32 across = warp / CHUNKS;
    const u32 row_of_8 = lane / 4, pair = lane % 4 * 2;  // of a matrix of 8 pixels by 8 channels
    const u32 first_channel = place.c + chunk * 8;
    [[maybe_unused]] const u32 c = first_channel + pair;

    u32 factors[KERNEL_H][KERNEL_W];
#pragma unroll
    for (int kh = 0; kh < KERNEL_H; ++kh)
#pragma unroll
      for (int kw = 0; kw < KERNEL_W; ++kw) {
        factors[kh][kw] = 0;
        if (row_of_8 / 2 * 2 == pair)
          factors[kh][kw] =
              u32(reinterpret_cast<const u16*>(weights)[(kh * KERNEL_W + kw) * p.channels + first_channel + row_of_8])
              << row_of_8 % 2 * 16;
      }
    wait_for_inputs();
    [[maybe_unused]] ColumnExtras columns = {};
    COLUMN_EXTRAS(columns, c)

    // Where this lane's row of the first four matrices lies: pixels 0 to 7 and 8 to 15 of a tap, and of the next one.
    constexpr int PLACES = IMAGES == 1 ? 1 : GROUPS;
    u32 from[PLACES][STRIDE_H][PAIRS];
#pragma unroll
    for (int group = 0; group < PLACES; ++group)
#pragma unroll
      for (int down = 0; down < STRIDE_H; ++down)
#pragma unroll
        for (int taps = 0; taps < PAIRS; ++taps) {
          const u32 pixel = (across * GROUPS + group) * 16 + lane % 16, image = pixel / TILE, column = pixel % TILE;
          const u32 tap = 2 * taps + (2 * taps + 1 < KERNEL_W ? lane / 16 : 0);
          from[group][down][taps] =
              shared + swizzled(((image * STRIDE_H + down) * COLUMNS + column * STRIDE_W + tap) * PIXEL + chunk * 16);
        }
    u8* const staged = in_shared + swizzled((across * GROUPS * 16 + row_of_8) * PIXEL + chunk * 16 + pair * 2);

    float seen = 0;  // NaN once a sum was infinite or NaN
    Sums sums = {};
    u32 phase = 0;
    for (i32 base = 0; base < rows.steps; base += STAGES, phase ^= 1) {
#pragma unroll
      for (int turn = 0; turn < STAGES; ++turn) {
        const i32 at = base + turn;  // the row of results that begins here
        if (at >= rows.steps) break;
#pragma unroll
        for (int group = 0; group < GROUPS; ++group)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[turn % RING][group][i] = 0;
        wait_for_phase(shared + full_at(turn), phase);
        if (reads(rows, at, p))
#pragma unroll
          for (int down = 0; down < STRIDE_H; ++down)
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) {
              u32 pixels[PAIRS][4];
#pragma unroll
              for (int taps = 0; taps < PAIRS; ++taps) {
                const u32 there =
                    from[group % PLACES][down][taps] + inputs_at(turn) + group / PLACES * (16 * STRIDE_W * PIXEL);
                if (2 * taps + 1 < KERNEL_W) load_matrices(pixels[taps], there);
                else load_two_matrices(pixels[taps], there);
              }
              add_products(sums, turn, group, down, pixels, factors);
            }
        const i32 row = at - (RING - 1);  // ends here
        if (row >= 0)
#pragma unroll
          for (int group = 0; group < GROUPS; ++group)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const u32 pixel = (across * GROUPS + group) * 16 + half * 8 + row_of_8;
              end_pixel(&sums[(turn + 1) % RING][group][half * 2], pixel, row, c, true, columns, p, place,
                        EXTRA_NAMES staged + results_at(turn) + (group * 2 + half) * 8 * PIXEL, seen);
            }
        __syncwarp();
        if (lane == 0) arrive(shared + done_at(turn));
      }
    }
    if (seen != seen) *met_nan = 1;
  }
  __syncthreads();
  if (*met_nan) {
    if (threadIdx.x == 32 * CONSUMERS) finish_stores();
    __syncthreads();
    compute_alone(in, weights, EXTRA_NAMES out, p, place);
  }
}
