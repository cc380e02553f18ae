// SPDX-License-Identifier: Apache-2.0
// The first convolution of an image model in bytes or 16-bit floats, with a stride of 2 and a 3 by 3 max pool of stride
// 2 behind it, on Hopper. The weights are the rows of the product and stay in registers: a warp has 16 channels, a lane
// two neighbours of them. Pixels are the columns, which wgmma reads from shared memory without anyone's help.
//
// A patch of the image lies there in blocks of 16 bytes, of BLOCK_H by 2 pixels: a pixel is four elements, its channels
// and zeros. An output's neighbour to the right begins one block further, so that eight of them are the 128 contiguous
// bytes of a core matrix without swizzling, and two neighbouring blocks are the 32 bytes of a step of K (PTX ISA,
// "Canonical layouts": the leading dimension offset is one block, the stride of eight columns OUTPUT_ROW blocks). A
// tile is 16 outputs of the convolution wide and TILE_H rows high, and two products: of its left and right half.
//
// A lane then has 2 neighbouring outputs of each row and half, of 2 channels. It pools along columns in its registers.
// A block walks down the image, and a lane leaves in shared memory what it needs of the last row in the tile below.
// That of the tile above its first one it computes alone: a patch begins with the pixels of one more row.
// Along rows it takes one sum from the lane to its left. The first two columns of a tile only serve their neighbours.
// Sums are pooled before the epilogue, which must not change their order.
//
// A block is two warpgroups. A thread of the producer makes a piece of each patch, of 4 by 2 pixels, and has the next
// one's pixels in registers by then. The consumer multiplies, pools and stores.
//
// Under a kernel's blocks are pixels that are none of its taps, with weights of zero. Where a pixel is infinite or no
// number, that is not enough: from then on a block's lanes add their products one by one, without those.
//
// Generated before this text (conv_first_columns.cc): In, IN_WORDS, A, PROLOGUE, prologue(), AS_FLOATS, PREPARED,
// Others, LOAD_OTHERS, OTHER_INPUTS, MATRIX, CHANNELS and KERNEL_W as in conv_first.cu, OTHER_NAMES (arguments for
// OTHER_INPUTS), PLANES as in pixel_words.cuh, TILE_H, BLOCK_H, BLOCK_ROWS and BLOCK_COLUMNS (blocks of a patch),
// TAP_ROWS and TAP_COLUMNS (blocks under the kernel), LEFT (columns of weight zero before the kernel's), STAGES
// (patches), RESIDENT (blocks of an SM), FEW and MANY (registers of a producer's and of a consumer's thread), and the
// text of the epilogue for two channels (image_epilogue.h).
#include "backends/cuda/conv/conv_first.cuh"

#if MATRIX <= 2
using Sum = float;
#else
using Sum = i32;
#endif
#include "backends/cuda/support/wgmma.cuh"

// Two elements in a word.
union Word {
  u32 bits;
  A at[2];
};
DEVICE void floats_of(float (&x)[2], u32 bits) {
  const Word word{bits};
#pragma unroll
  for (int i = 0; i < 2; ++i) x[i] = hold(word.at[i]);
}
DEVICE u32 bits_of(i32 x) { return u32(x); }
DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE Sum sum_of(u32 bits) {
  if constexpr (is_float<Sum>) return __uint_as_float(bits);
  else return Sum(bits);
}

constexpr int GROUP = 4;
#include "backends/cuda/conv/pixel_words.cuh"

constexpr int THREADS = 128, TILE_W = 16, CHANNELS_OF_WARP = 16, HALVES = 2;
constexpr int STEPS = TAP_ROWS * TAP_COLUMNS / 2, PITCH = BLOCK_COLUMNS * 16, PATCH_BYTES = BLOCK_ROWS * PITCH;
constexpr int OUTPUT_ROW = 2 / BLOCK_H;  // rows of blocks from an output to the one below
constexpr int ACROSS = BLOCK_COLUMNS / 2, PIECES = BLOCK_ROWS / OUTPUT_ROW * ACROSS;
constexpr int POOLED = TILE_H / 2;  // rows of a tile
static_assert(TILE_H == 8 && PIECES <= THREADS, "a product has 64 columns, and a thread one piece of a patch");
static_assert(TAP_COLUMNS % 2 == 0 && BLOCK_COLUMNS % 2 == 0 && BLOCK_COLUMNS >= TILE_W + TAP_COLUMNS - 1);
static_assert(BLOCK_H * 2 * 4 * sizeof(A) == 16 && BLOCK_ROWS % OUTPUT_ROW == 0);
static_assert(BLOCK_ROWS >= TILE_H * OUTPUT_ROW + TAP_ROWS);

DEVICE TilePlace place_of(u32 tile, const Parameters& p) {
  const u32 rest = divide(tile, p.tiles_down), n = divide(rest, p.tiles_across);
  return {n, i32(tile - rest * p.tiles_down.divisor) * TILE_H,
          i32(rest - n * p.tiles_across.divisor) * (TILE_W - 2) - 2};
}
// Whether a tile is the last before a block goes on at the top.
DEVICE bool is_lowest(i32 h, const Parameters& p) { return h + TILE_H >= i32(p.tiles_down.divisor) * TILE_H; }

// Shared memory: patches, results, last rows, of each patch a barrier that it is full and one that it is empty again,
// and whether a pixel was no finite number.
constexpr int RESULTS = PATCH_BYTES * STAGES, ABOVE = RESULTS + POOLED * 8 * 64 * int(sizeof(Output)),
              BARRIERS = ABOVE + THREADS * HALVES * int(sizeof(Quad));
DEVICE u32 full(u32 shared, u32 stage) { return shared + BARRIERS + stage * 8; }
DEVICE u32 empty(u32 shared, u32 stage) { return shared + BARRIERS + (STAGES + stage) * 8; }
DEVICE volatile u32* endless(u8* memory) { return reinterpret_cast<u32*>(memory + BARRIERS + STAGES * 16); }

// A block's tiles.
struct Tiles {
  u32 first, end;
};
DEVICE Tiles tiles_of(const Parameters& p) {
  const u32 first = blockIdx.x * p.block_tiles, end = first + p.block_tiles;
  return {first, end < p.tiles ? end : p.tiles};
}

// A thread's piece of the patches, from tile to tile: two rows of four pixels, as they lie in the image.
struct Piece {
  const In* from;  // of the first row, which may be outside
  i32 tile_h;
  i32 first;  // row of the image, less 2 * tile_h; far above the image where the columns are outside
  Pixels rows[2];
};
constexpr i32 PIXEL = PLANES ? 1 : CHANNELS;  // elements from one pixel to the next
DEVICE bool is_inside(const Piece& piece, int row, const Parameters& p) {
  return u32(piece.tile_h * 2 + piece.first + row) < u32(p.height);
}
DEVICE void place(Piece& piece, const In* in, const Parameters& p, u32 tile) {
  const TilePlace at = place_of(tile, p);
  const int thread = int(threadIdx.x);
  const i32 first = thread / ACROSS * 2 - 2 - p.pad_h, w = at.w * 2 - p.pad_w - LEFT + thread % ACROSS * 4;
  piece.from = in + i64(at.n) * CHANNELS * p.height * p.width + i64((at.h * 2 + first) * p.width + w) * PIXEL;
  piece.tile_h = at.h;
  piece.first = thread < PIECES && u32(w) < u32(p.width) ? first : i32(0x80000000u);
}
DEVICE void fetch(Piece& piece, const Parameters& p) {
  // What is below has not been read by anyone yet: it comes to L2 meanwhile, since registers are few.
  if (is_inside(piece, TILE_H * 2 + 1, p))
#pragma unroll
    for (int c = 0; c < (PLANES ? CHANNELS : 1); ++c)
#pragma unroll
      for (int row = 0; row < 2; ++row)
        prefetch_line(piece.from + (TILE_H * 2 + row) * p.width * PIXEL + c * p.height * p.width);
#pragma unroll
  for (int row = 0; row < 2; ++row)
    if (is_inside(piece, row, p)) piece.rows[row] = load_pixels(piece.from + row * p.width * PIXEL, p.height * p.width);
}
// Of `tile`, which is the one behind the piece's; the row above is not needed any more.
DEVICE void fetch_next(Piece& piece, const In* in, const Parameters& p, u32 tile) {
  if (is_lowest(piece.tile_h, p)) {
    place(piece, in, p, tile);
  } else {
    piece.tile_h += TILE_H;
    piece.from += TILE_H * 2 * p.width * PIXEL;
  }
  if (threadIdx.x < ACROSS) piece.first = i32(0x80000000u);
  fetch(piece, p);
}
DEVICE void make_piece(u8* memory, u32 stage, const Piece& piece, const Others (&others)[CHANNELS], u32 pattern,
                       const Parameters& p) {
  constexpr int WORDS = int(sizeof(A));  // of a pixel
  if (threadIdx.x >= PIECES) return;
  u8* const patch = memory + stage * PATCH_BYTES;
  u8* const to = OUTPUT_ROW == 1 ? patch + threadIdx.x * 32
                                 : patch + threadIdx.x / ACROSS * OUTPUT_ROW * PITCH + threadIdx.x % ACROSS * 32;
  Words rows[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    rows[row] = pixel_words(piece.rows[row], others, pattern);
    const bool inside = is_inside(piece, row, p);
#pragma unroll
    for (int i = 0; i < 4 * WORDS; ++i) rows[row].at[i] = inside ? rows[row].at[i] : 0;
    if (is_float<Sum> && has_endless(rows[row])) *endless(memory) = 1;
  }
#pragma unroll
  for (int row = 0; row < OUTPUT_ROW; ++row)
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      Vec<u32, 4> words;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words.at[i] = BLOCK_H == 1 ? rows[row].at[block * 4 + i] : rows[i / 2].at[block * 2 + i % 2];
      store_vector(reinterpret_cast<u32*>(to + row * PITCH + block * 16), words);
    }
}

DEVICE void produce(const In* in, OTHER_INPUTS const Tiles& tiles, const Parameters& p) {
  u8* const memory = dynamic_shared();
  const u32 shared = shared_address(memory), pattern = kept(kByteAsFloat);
  Others others[CHANNELS];
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) { LOAD_OTHERS(others[c], c) }
  Piece piece;
  place(piece, in, p, tiles.first);
  fetch(piece, p);
  RingPlace<STAGES> ring;
#pragma unroll 1
  for (u32 tile = tiles.first; tile < tiles.end; ++tile, ring.advance()) {
    wait_for_phase(empty(shared, ring.stage), ring.phase ^ 1);
    make_piece(memory, ring.stage, piece, others, pattern, p);
    publish_shared();
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(full(shared, ring.stage));
    if (tile + 1 < tiles.end) fetch_next(piece, in, p, tile + 1);
  }
}

// The largest, NaN where one is.
DEVICE Sum largest(Sum a, Sum b, Sum c) {
  if constexpr (is_float<Sum>) return max_nan(max_nan(a, b), c);
  const Sum d = a > b ? a : b;
  return d > c ? d : c;
}
DEVICE Sum lowest() {
  if constexpr (is_float<Sum>) return __uint_as_float(0xff800000u);
  else return i32(0x80000000u);
}

// Issues the products of some rows, whose first pixels begin at `patch`.
template <int COUNT>
DEVICE void multiply_rows(Sum (&sums)[HALVES][COUNT], const u32 (&weights)[STEPS][4], u32 patch) {
  const u64 pixels = descriptor_of_cores(patch, 16, OUTPUT_ROW * PITCH);
  begin_products();
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int half = 0; half < HALVES; ++half)
      multiply_group(sums[half], weights[step],
                     pixels + step / (TAP_COLUMNS / 2) * (PITCH / 16) + step % (TAP_COLUMNS / 2) * 2 + half * 8,
                     step > 0);
  commit_products();
  wait_for_products<0>();
  renew(sums);
}
// The same one by one, of a kernel's taps alone. `weights`: of the first step and of the first of the four lanes that
// share a channel; `patch`: at this lane's first output.
template <int COUNT>
DEVICE void add_rows(Sum (&sums)[HALVES][COUNT], const Quad* weights, const u8* patch) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[0][i] = sums[1][i] = 0;
#pragma unroll 1
  for (int k = 0; k < STEPS * 8; ++k) {
    const int step = k / 8, block = k / 4 % 2, lane = k % 4, row = step / (TAP_COLUMNS / 2),
              column = step % (TAP_COLUMNS / 2) * 2 + block, tap = column * 2 + lane / 2 - LEFT;
    if (tap < 0 || tap >= KERNEL_W) continue;
    const Quad& of_lane = weights[step * THREADS + lane];
    float w[2][2];
#pragma unroll
    for (int channel = 0; channel < 2; ++channel) floats_of(w[channel], of_lane.at[block * 2 + channel]);
#pragma unroll
    for (int half = 0; half < HALVES; ++half)
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        float x[2];
        floats_of(x, *reinterpret_cast<const u32*>(patch + (i / 4 * OUTPUT_ROW + row) * PITCH +
                                                   (half * 8 + i % 2 + column) * 16 + lane * 4));
        Sum& sum = sums[half][i];
        sum = __fmaf_rn(x[1], w[i / 2 % 2][1], __fmaf_rn(x[0], w[i / 2 % 2][0], sum));
      }
  }
  __syncwarp();
}
template <int COUNT>
DEVICE void sum_rows(Sum (&sums)[HALVES][COUNT], const u32 (&rows)[STEPS][4], const Quad* weights, u8* memory,
                     u32 patch) {
  multiply_rows(sums, rows, shared_address(memory) + patch);
  if constexpr (is_float<Sum>) {
    const int thread = int(threadIdx.x) - THREADS;
    const bool one_by_one = __shfl_sync(0xffffffffu, u32(*endless(memory)), 0);  // as it may become so meanwhile
    if (one_by_one) add_rows(sums, weights + (thread & ~3), memory + patch + thread % 4 * 32);
  }
}

DEVICE void consume(const Quad* weights, EXTRAS Output* out, const Tiles& tiles, const Parameters& p) {
  u8* const memory = dynamic_shared();
  const u32 shared = shared_address(memory);
  const int thread = int(threadIdx.x) - THREADS, warp = thread / 32, lane = thread % 32, t = lane % 4;
  // A warp's results: pixels by channels.
  Output* const results = reinterpret_cast<Output*>(memory + RESULTS) + warp * POOLED * 8 * CHANNELS_OF_WARP;
  const u32 channel = blockIdx.y * 64 + warp * CHANNELS_OF_WARP;
  u32 rows[STEPS][4];
  weights += blockIdx.y * STEPS * THREADS;
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const Quad quad = weights[step * THREADS + thread];
#pragma unroll
    for (int i = 0; i < 4; ++i) rows[step][i] = quad.at[i];
  }
  [[maybe_unused]] ColumnExtras columns;
  if (channel < p.outputs) { COLUMN_EXTRAS(columns, channel + lane / 4 * 2) }

  // A lane stores 16 bytes of a pixel, CHUNKS times; the first one is in this row and column of the tile's results.
  constexpr int CHUNKS = CHANNELS_OF_WARP * int(sizeof(Output)) / 16, ROWS_AT_ONCE = POOLED / CHUNKS;
  const int row = lane / CHUNKS / 8, column = lane / CHUNKS % 8;
  const i64 row_pitch = i64(p.out_width) * p.outputs;
  TilePlace at = place_of(tiles.first, p);
  // Of the last row of the tile above, by half, channel and column: registers are for sums.
  Quad* const above = reinterpret_cast<Quad*>(memory + ABOVE) + thread;
  RingPlace<STAGES> ring;
#pragma unroll 1
  for (u32 tile = tiles.first; tile < tiles.end; ++tile, ring.advance()) {
    wait_for_phase(full(shared, ring.stage), ring.phase);
    Sum sums[HALVES][32];  // [half][row * 4 + channel * 2 + column]
    const u32 patch = ring.stage * PATCH_BYTES;
    if (tile == tiles.first && at.h > 0) {
      Sum row[HALVES][4];
      sum_rows(row, rows, weights, memory, patch);
#pragma unroll
      for (int half = 0; half < HALVES; ++half)
        above[half * THREADS] = {
            {bits_of(row[half][0]), bits_of(row[half][1]), bits_of(row[half][2]), bits_of(row[half][3])}};
    }
    sum_rows(sums, rows, weights, memory, patch + OUTPUT_ROW * PITCH);
    if (lane == 0) arrive(empty(shared, ring.stage));

    // Of what reaches into an output, only odd rows and columns may lie outside of the convolution's outputs.
    if (at.h + TILE_H > p.conv_height) {
#pragma unroll
      for (int row = 1; row < TILE_H; row += 2)
        if (at.h + row >= p.conv_height)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[0][row * 4 + i] = sums[1][row * 4 + i] = lowest();
    }
    Sum columns_of[HALVES][POOLED][2][2];
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
      constexpr u32 LOWEST = is_float<Sum> ? 0xff800000u : 0x80000000u;
      Quad last = {{LOWEST, LOWEST, LOWEST, LOWEST}};
      if (at.h > 0) last = above[half * THREADS];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Sum before = sum_of(last.at[i]);
#pragma unroll
        for (int row = 0; row < POOLED; ++row) {
          const Sum odd = sums[half][(row * 2 + 1) * 4 + i];
          columns_of[half][row][i / 2][i % 2] = largest(before, sums[half][row * 2 * 4 + i], odd);
          before = odd;
        }
        last.at[i] = bits_of(before);
      }
      above[half * THREADS] = last;
    }
    if (at.w < 0 || at.w + TILE_W > p.conv_width) {
#pragma unroll
      for (int half = 0; half < HALVES; ++half) {
        const bool inside = u32(at.w + half * 8 + t * 2 + 1) < u32(p.conv_width);
#pragma unroll
        for (int i = 0; i < POOLED * 2; ++i) {
          Sum& x = columns_of[half][i / 2][i % 2][1];
          x = inside ? x : lowest();
        }
      }
    }
    const TilePlace done = at;
    if (is_lowest(at.h, p)) at = place_of(tile + 1, p);
    else at.h += TILE_H;
    const int to_left = (lane & ~3) | ((lane + 3) & 3);
#pragma unroll
    for (int half = 0; half < HALVES; ++half)
#pragma unroll
      for (int row = 0; row < POOLED; ++row) {
        Finished<Output> pair[2];
#pragma unroll
        for (int channel = 0; channel < 2; ++channel) {
          const Sum(&own)[2] = columns_of[half][row][channel];
          // The right half's first lane has the left half's last one to its left.
          const Sum given = half == 1 && t == 3 ? columns_of[0][row][channel][1] : own[1];
          const Sum left = __shfl_sync(0xffffffffu, given, to_left);
          pair[channel] = EPILOGUE(Acc(largest(own[0], own[1], left)), columns, RowExtras{}, 0, channel);
        }
        store_results<Output, 2>(results + (row * 8 + half * 4 + t) * CHANNELS_OF_WARP + lane / 4 * 2, pair);
      }
    __syncwarp();
    const i32 w = done.w / 2 + column;
    Output* const to = out + ((i64(done.n) * p.out_height + done.h / 2 + row) * p.out_width + w) * p.outputs + channel;
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
      const int my_row = row + i * ROWS_AT_ONCE;
      if (column == 0 || w >= p.out_width || channel >= p.outputs || done.h / 2 + my_row >= p.out_height) continue;
      *(reinterpret_cast<Quad*>(to + i * ROWS_AT_ONCE * row_pitch) + lane % CHUNKS) =
          reinterpret_cast<const Quad*>(results)[i * 32 + lane];
    }
    __syncwarp();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS * 2, RESIDENT)
    conv_first_columns(const In* in, const Quad* weights, OTHER_INPUTS EXTRAS Output* out, const Parameters p) {
  const u32 shared = shared_address(dynamic_shared());
  if (threadIdx.x == 0) {
    *endless(dynamic_shared()) = 0;
    for (u32 stage = 0; stage < STAGES; ++stage) {
      barrier_init(full(shared, stage), 4);  // a lane of each warp
      barrier_init(empty(shared, stage), 4);
    }
  }
  __syncthreads();
  wait_for_inputs();
  const Tiles tiles = tiles_of(p);
  if (threadIdx.x < THREADS) {
    give_registers<FEW>();
    produce(in, OTHER_NAMES tiles, p);
  } else {
    take_registers<MANY>();
    consume(weights, EXTRA_NAMES out, tiles, p);
  }
}
