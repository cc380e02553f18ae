// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on Hopper (sm_90a), by TMA and wgmma.
//
// The kernel is warp-specialized and persistent. The grid has LEAST_BLOCKS blocks per SM, one or two, and each block
// walks over output tiles. Warpgroup 0 is the producer: one of its threads issues TMA loads into a STAGES-deep ring of
// K slices. For convolutions TMA itself gathers the pixels of a filter tap (im2col mode). The CONSUMERS other
// warpgroups run wgmma and apply the epilogue from registers. In the ping-pong schedule consumers own alternate tiles,
// so one runs its epilogue while another multiplies. In the COOPERATIVE schedule they split the M rows of one tile,
// which loads fewer bytes for the same products. The ring continues across tiles, so loads never stop.
//
// The host permutes the columns of B when it prepacks the weights (hopper_gemm.cc): of 4 * V columns, the sums that one
// thread holds are V neighbours of the output. Results go from registers to global memory without a pass through shared
// memory.
//
// RESIDENT slices of B stay in shared memory, if K has so few of them that they fit: L2 bandwidth per SM is below what
// wgmma consumes, and then only A is streamed. The grid is a multiple of the number of N tiles, so that all tiles of a
// block have the same N tile.
//
// EXTRA_STAGES: a tensor of the output's shape that the epilogue reads (a residual) also comes by TMA, EXTRA_STAGES
// tiles ahead. Threads that loaded it themselves would wait for memory in each tile. One thread of the producer
// warpgroup issues these loads for each consumer in the ping-pong schedule, and one for all of them in the cooperative
// one. STORED: results replace the residual's tile in shared memory, and TMA stores them from there. Warps then have
// less to do for a tile, but a block must wait for its last store.
//
// ARRAYS: epilogue inputs with one 4-byte number per column (bias, scales) are copied to shared memory: once if all
// tiles of a block have the same columns (FIXED), otherwise for each tile while its products are computed.
//
// FUSED_PAIR: a second convolution runs in the same kernel. A tile of the first one has all of its columns. The results
// of the first epilogue (FIRST_EPILOGUE) stay in registers, where they are the A operand of the second product: the
// host ordered its depth so that the 16 bytes of a thread are what wgmma reads of it. The weights of the second product
// stay in shared memory. It is computed in CHUNKS chunks of TILE_N columns, and the second epilogue finishes each chunk
// before the next one is multiplied.
//
// THIRD: a third convolution, of a single tap, reads what the second one stores. The results of each chunk are the A
// operand of a part of its depth, in registers as well; its sums stay there from chunk to chunk, and are finished
// behind the last one.
//
// PATCH: the taps of a convolution of stride 1 read one patch in shared memory. The rows of the GEMM are then positions
// of padded images, in which those behind the end of an image's row or of an image are the padding before the next one;
// a tap is as many positions further everywhere. TMA loads the positions of a tile and those that its taps reach beyond
// them (im2col mode, whose box includes the padding), and wgmma reads the rows of each tap from where they begin: its
// swizzling goes by the address in shared memory. A position is loaded once or twice, not once for each tap; a few
// rows of a tile are no results, and are not stored.
//
// SPLITS: if there are few tiles, a cluster of SPLITS blocks shares one tile (split K): each block sums a part of K.
// Each block then finishes a part of the tile, for which the other blocks write their partial sums into its shared
// memory. A block has one tile.
//
// SHARERS: with 2, two blocks of a cluster have the same columns and neighbouring rows of tiles, and each loads half of
// B for both (multicast), so that L2 gives fewer bytes for the same products. A stage is empty when the consumers of
// both blocks have read it.
//
// MATRICES: many products of matrices that lie one behind the other, A perhaps once for all of them, and B computed: 1
// if it has rows of K (a transposed B), 2 if it has rows of columns, which wgmma reads as well, of 16 bits. Then nobody
// has put the columns of B in order, and V is 2, as wgmma holds its sums. 0: B was prepacked.
//
// Programmatic dependent launch (PDL): constants are loaded before the previous kernel has ended. These are the first
// slices of B and, with CONSTANT_COLUMNS, the epilogue's inputs per column. Each thread waits for that kernel just
// before it reads what that made, so that what comes before has been computed, and its instructions have been fetched:
// of small batches each step has others, which are in no cache of the SM. Threads that read and write behind a barrier
// of TMA's loads need not wait themselves. Blocks with one consumer leave room on the SM for blocks of the next kernel,
// which start while these still multiply.
//
// RAGGED: the rows of the output are no whole groups of V columns, so that most of them begin where no 16 bytes may be
// stored at once. Lanes then hand what lies behind such a place to their neighbours, and store 16 bytes there all the
// same; only where a tile begins and ends the pieces are smaller.
//
// GATED: of every 8 * V columns the second half gates the first, as the host ordered them: a thread has both sums of a
// result in its registers, and the output has half as many columns as the product.
//
// PROLOGUE: a program makes the operand A of what TMA loads (squeeze-excite's products by channels of an image, a batch
// norm before its convolution). A consumer applies it to its rows of a stage where they lie, 16 bytes at a time, before
// wgmma reads them; it does so while the products of the slice before run.
//
// SHORTCUT: a second convolution of as many rows and columns, whose result the epilogue reads. Its K slices go through
// the same ring before those of the first one, and its weights lie behind those of the first one in B. Its results stay
// in registers, in the place of a residual. In the ping-pong schedule consumers multiply for the shortcuts of their
// tiles in turn, and then for their tiles: an epilogue of a shortcut runs beside the products of the next consumer. In
// a fused pair, whose second epilogue reads the result, the shortcut's rows of A come ahead as a residual would, and
// stay until the tile's last chunk; its weights stay in shared memory, as those of the second one do.
//
// Tiles are walked along the columns, or along the rows with `rows_inner`: what the inner walk loads again for each
// step of the outer one should be what L2 can hold.
//
// wgmma truncates f32 operands to TF32. TMA rounds those of A on the way; those of B were rounded when they were
// prepacked.
//
// Generated before this text: MATRIX, Sum, WARPGROUP_M (M rows of one consumer's tile), TILE_N, SLICE (bytes of K: 128,
// 64 or 32), STAGES, RESIDENT (0: none), CONSUMERS, LEAST_BLOCKS, SPLITS, SHARERS, MATRICES, GATED, V, ELEMENT (bytes
// of an element of A or B), PROLOGUE, and with it PROLOGUE_BY_IMAGE and the text of image_prologue, COOPERATIVE,
// IM2COL, PATCH (positions of a patch, 0: none), RAGGED, EXTRA_STAGES (0: there is no such tensor; otherwise EXTRA_NAME
// and Extra are its name and element type), STORED, BY_IMAGE (there are ImageExtras), EXTRA_CHUNKS (chunks of the extra
// tensor that are loaded at a time), PIECE (bytes of a row of it that lie together), EXTRA_NAMES, CONSTANT_COLUMNS,
// ARRAYS and FOR_ARRAYS(f), which expands f(i, type, name) for each array, FIRST_ARRAYS, THIRD_ARRAYS and
// SHORTCUT_ARRAYS (0 where there is no such convolution), FUSED_PAIR, CHUNKS (1 unless FUSED_PAIR), and the text of
// image_epilogue. With FUSED_PAIR also FIRST_V, BETWEEN (columns of the first product), THEN_SLICE and THEN_SLICES
// (bytes of a K slice of the second product, and their number), and the text of image_epilogue for the first
// convolution; with SHORTCUT also SHORTCUT_IM2COL, the text of image_epilogue for the shortcut, JOINED, the name by
// which ROW_EXTRAS reads its results, and SHORTCUT_SLICES (of a fused pair, otherwise 0); with THIRD also THIRD_V,
// THIRD_N (its columns), THIRD_SLICE, THIRD_SLICES, and the text of image_epilogue for the third convolution.
#include "backends/cuda/support/memory.cuh"
#include "backends/cuda/support/wgmma.cuh"

// How the K slices of a convolution follow one another: all channels of a tap, then the next tap.
struct Taps {
  u32 taps_h, taps_w, channel_slices;
  i32 stride_w, stride_h, pad_w, pad_h, dilation_w, dilation_h;
};

struct Parameters {
  u32 rows, columns, out_ld, extra_ld, image_ld, tiles;  // leading dimensions: of the output, of the residual, of what
                                                         // the epilogue reads for each channel of each image
  Divisor inner_tiles;                                   // tiles along the inner walk
  u32 rows_inner, backwards;                             // `backwards`: the last tile comes first
  u32 taps_h, taps_w, channel_slices;                    // number of K slices: taps_h * taps_w * channel_slices
  u32 split_slices;                                      // K slices of a block, at most
  Divisor walked_w, walked_h;                            // row = (n * walked_h + h) * walked_w + w
  u32 out_w, out_h;                                      // of the output: smaller with PATCH, otherwise as many
  i32 stride_w, stride_h, pad_w, pad_h, dilation_w, dilation_h;
  Divisor matrix_tiles;  // of one product of MATRICES
  u32 a_rows;            // rows of A from one product to the next
#if PROLOGUE
  u32 channels;
#endif
#if SHORTCUT
  Taps shortcut;
#endif
#if THIRD
  u32 third_columns, third_ld;
#endif
  NUMBERS
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Registers of a producer thread and of a consumer thread; an SM has 65536. Blocks with one consumer do not move
// registers between their warpgroups.
constexpr int FEW = CONSUMERS == 2 ? 40 : 24, MANY = CONSUMERS == 3                        ? 160
                                                     : CONSUMERS == 4 || LEAST_BLOCKS == 2 ? 112
                                                                                           : 232;
constexpr int TILE_M = COOPERATIVE ? CONSUMERS * WARPGROUP_M : WARPGROUP_M;
constexpr int BYTES_A = (PATCH ? PATCH : TILE_M) * SLICE, BYTES_B = TILE_N * SLICE,
              STAGE = (BYTES_A + 1023) / 1024 * 1024 + (RESIDENT ? 0 : BYTES_B);
constexpr int RINGS = COOPERATIVE ? 1 : CONSUMERS, EXTRA_TILES = RINGS * EXTRA_STAGES;  // of tiles of the extra tensor
constexpr int BYTES_RESULT = sizeof(Output), ROW_OUT = EXTRA_CHUNKS * TILE_N * BYTES_RESULT,
              TILE_OUT = TILE_M * ROW_OUT, EXTRAS_AT = STAGES * STAGE + RESIDENT * BYTES_B,
              TILE_EXTRA = SHORTCUT ? SHORTCUT_SLICES * TILE_M * SLICE : TILE_OUT,
              PARTIALS_AT = EXTRAS_AT + EXTRA_TILES * TILE_EXTRA,
              THEN_AT = PARTIALS_AT + (SPLITS > 1 ? TILE_M * TILE_N * 4 : 0);
#if FUSED_PAIR
constexpr int BYTES_THEN = TILE_N * THEN_SLICE, SHORTCUT_AT = THEN_AT + CHUNKS * THEN_SLICES * BYTES_THEN,
              BYTES_SHORTCUT = CHUNKS * SHORTCUT_SLICES * BYTES_B, THIRD_AT = SHORTCUT_AT + BYTES_SHORTCUT;
#if THIRD
constexpr int BYTES_THIRD = THIRD_N * THIRD_SLICE, THIRD_ARRAYS_AT = THIRD_AT + THIRD_SLICES * BYTES_THIRD,
              FIRST_ARRAYS_AT = THIRD_ARRAYS_AT + THIRD_ARRAYS * THIRD_N * 4;
#else
constexpr int FIRST_ARRAYS_AT = THIRD_AT;
#endif
constexpr int ARRAYS_AT = FIRST_ARRAYS_AT + FIRST_ARRAYS * TILE_N * 4;
#else
constexpr int ARRAYS_AT = THEN_AT;
#endif
constexpr bool FIXED = RESIDENT || FUSED_PAIR;
// The arrays in shared memory; those of a shortcut are behind the others. If they change from tile to tile, each
// consumer has a double buffer.
constexpr int ALL_ARRAYS = ARRAYS + SHORTCUT_ARRAYS, ARRAY_N = CHUNKS * TILE_N,
              BYTES_ARRAYS = SPLITS > 1 ? 0 : ALL_ARRAYS *ARRAY_N * 4,
              BARRIERS = ARRAYS_AT + (FIXED ? 1 : 2 * CONSUMERS) * BYTES_ARRAYS;
constexpr int PER_SLICE = SLICE / ELEMENT, BLOCKS_M = WARPGROUP_M / 64, N_GROUPS = TILE_N / (4 * V);
static_assert(N_GROUPS * 4 * V == TILE_N, "tiles are whole groups of columns");
static_assert(SHARERS == 1 || (SPLITS == 1 && RESIDENT == 0 && !FUSED_PAIR), "B goes through the ring");
static_assert(!MATRICES || (SPLITS == 1 && SHARERS == 1 && RESIDENT == 0 && !STORED && V == 2),
              "B changes from tile to tile, and a tile may end within a matrix");
static_assert(!GATED || (SPLITS == 1 && !MATRICES && !RAGGED && !EXTRA_STAGES && !FUSED_PAIR && N_GROUPS % 2 == 0),
              "a thread has both groups of a pair");
static_assert(!PATCH || (RESIDENT && IM2COL && SPLITS == 1 && SHARERS == 1 && !STORED),
              "a stage has a slice of all taps of A");
static_assert(!SHORTCUT || (SPLITS == 1 && (!PATCH || FUSED_PAIR) && !STORED && !GATED && !RAGGED && !MATRICES),
              "its results are all that the epilogue reads of the output's shape");
static_assert(MATRICES != 2 || (SLICE == 128 && TILE_N % 64 == 0), "pieces of 64 columns of 16 bits");
static_assert(SPLITS == 1 || (CONSUMERS == 1 && COOPERATIVE && RESIDENT == 0),
              "blocks that share a tile have no other");

// The address of slice `slice` of B, when the ring is at `stage`.
DEVICE u32 place_of_b(u32 shared, u32 stage, u32 slice) {
  return RESIDENT ? shared + STAGES * STAGE + slice * BYTES_B : shared + stage * STAGE + BYTES_A;
}
// Barriers (mbarrier) behind the buffers: a stage is full, a stage is empty, and the ping-pong order of the consumers.
DEVICE u32 full(u32 shared, u32 stage) { return shared + BARRIERS + stage * 8; }
DEVICE u32 empty(u32 shared, u32 stage) { return shared + BARRIERS + (STAGES + stage) * 8; }
DEVICE u32 turn_of(u32 shared, u32 consumer) { return shared + BARRIERS + (2 * STAGES + consumer) * 8; }

// A warp lets another consumer start its products.
DEVICE void give_turn(u32 shared, u32 consumer) {
  if (threadIdx.x % 32 == 0) arrive(turn_of(shared, consumer));
}

DEVICE u32 extra_full(u32 shared, u32 stage) { return turn_of(shared, CONSUMERS) + stage * 8; }
DEVICE u32 extra_empty(u32 shared, u32 stage) { return turn_of(shared, CONSUMERS) + (EXTRA_TILES + stage) * 8; }
DEVICE u32 then_full(u32 shared) { return turn_of(shared, CONSUMERS) + 2 * EXTRA_TILES * 8; }

// The K slices of this block, as they go through the ring; with PATCH those of the channels, each of all taps.
struct Slices {
  u32 begin, end;
};
DEVICE u32 taps_of_slice(const Parameters& p) { return PATCH ? p.taps_h * p.taps_w : 1; }
DEVICE Taps my_taps(const Parameters& p) {
  return {p.taps_h, p.taps_w, p.channel_slices, p.stride_w, p.stride_h, p.pad_w, p.pad_h, p.dilation_w, p.dilation_h};
}
// Those that go through the ring.
DEVICE u32 shortcut_slices([[maybe_unused]] const Parameters& p) {
#if SHORTCUT && !FUSED_PAIR
  return p.shortcut.taps_h * p.shortcut.taps_w * p.shortcut.channel_slices;
#else
  return 0;
#endif
}
// Tiles whose shortcuts are multiplied before they are.
constexpr int GROUP = SHORTCUT && !FUSED_PAIR && !COOPERATIVE ? CONSUMERS : 1;
DEVICE Slices my_slices(const Parameters& p) {
  const u32 all = (PATCH ? 1 : p.taps_h * p.taps_w) * p.channel_slices;
  if constexpr (SPLITS == 1) return {0, all};
  const u32 begin = blockIdx.y * p.split_slices, end = begin + p.split_slices;
  return {begin, end < all ? end : all};
}

struct TilePlace {  // in tiles
  u32 row, column;
  u32 matrix = 0;
};
DEVICE TilePlace place_of(u32 tile, const Parameters& p) {
  tile = (tile ^ p.backwards) + (p.tiles & p.backwards);
  if constexpr (FUSED_PAIR) return {tile, 0};
  u32 matrix = 0;
  if constexpr (MATRICES) {
    matrix = divide(tile, p.matrix_tiles);
    tile -= matrix * p.matrix_tiles.divisor;
  }
  const u32 outer = divide(tile, p.inner_tiles), inner = tile - outer * p.inner_tiles.divisor;
  const TilePlace at = p.rows_inner ? TilePlace{inner, outer} : TilePlace{outer, inner};
  return {at.row * SHARERS + blockIdx.x % SHARERS, at.column, matrix};
}
// A block's tiles: those that share columns have the same ones.
DEVICE u32 first_tile() { return blockIdx.x / SHARERS; }
DEVICE u32 tile_step() { return gridDim.x / SHARERS; }

// Where row `row` of the GEMM is.
struct Pixel {
  u32 w, h, image;
};
DEVICE Pixel pixel_of(u32 row, const Parameters& p) {
  const u32 line = divide(row, p.walked_w), image = divide(line, p.walked_h);
  return {row - line * p.walked_w.divisor, line - image * p.walked_h.divisor, image};
}
// The row of the output that has the results of row `row` of the GEMM; none (at least p.rows) where it has none.
DEVICE u32 row_of_output(u32 row, [[maybe_unused]] const Parameters& p) {
  if constexpr (!PATCH) return row;
  const Pixel at = pixel_of(row, p);
  return at.w < p.out_w && at.h < p.out_h ? (at.image * p.out_h + at.h) * p.out_w + at.w : 0xffffffff;
}
// Those of a consumer thread's sums, found once for a tile: a patch's take two divisions each. `row` of the GEMM is the
// first one's.
struct OutputRows {
  u32 at[BLOCKS_M * 2];
};
DEVICE OutputRows output_rows(u32 row, const Parameters& p) {
  OutputRows rows;
#pragma unroll
  for (int m = 0; m < BLOCKS_M * 2; ++m) rows.at[m] = row_of_output(row + m / 2 * 64 + m % 2 * 8, p);
  return rows;
}

// The offset of 16 bytes in a tile, which is stored as pieces of WIDTH bytes of each row, swizzled by as many bytes.
template <int HEIGHT, int WIDTH>
DEVICE u32 place_in_tile(u32 row, u32 byte) {
  const u32 at = row * WIDTH + byte % WIDTH;
  return byte / WIDTH * (HEIGHT * WIDTH) + (at ^ (at >> 3 & (WIDTH - 16)));
}

#if EXTRA_STAGES
#if !SHORTCUT
// The offset in a tile, in bytes, of the thread's row number m and its columns of `group`. The thread's first row and
// column are (my_row, my_column).
DEVICE u32 place_of_mine(u32 my_row, u32 my_column, int m, int group) {
  return place_in_tile<TILE_M, PIECE>(my_row + m / 2 * 64 + m % 2 * 8, (my_column + group * 4 * V) * BYTES_RESULT);
}

#if STORED
// TMA stores the warp's rows of a tile, from `warp_row` on, to the output, where the tile begins at (row, column).
DEVICE void store_rows(u32 tile, u32 warp_row, u32 row, u32 column, const TensorMap& map_out) {
  publish_shared();
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
#pragma unroll
  for (int m = 0; m < BLOCKS_M; ++m)
#pragma unroll
    for (int piece = 0; piece < ROW_OUT / PIECE; ++piece)
      store_tile(map_out, i32(column + piece * (PIECE / BYTES_RESULT)), i32(row + warp_row + m * 64),
                 tile + piece * (TILE_M * PIECE) + (warp_row + m * 64) * PIECE);
  close_stores();
}

// Releases the buffer before the one at `place` to the producer, when TMA has read it.
DEVICE void give_tile_back(u32 shared, u32 ring, const RingPlace<EXTRA_STAGES>& place) {
  if (threadIdx.x % 32 != 0) return;
  wait_for_stores();
  arrive(extra_empty(shared, ring * EXTRA_STAGES + (place.stage ? place.stage : EXTRA_STAGES) - 1));
}
#endif

#endif

DEVICE void fill_extras(u32 shared, u32 ring, const TensorMap& map_extra, const Parameters& p) {
  RingPlace<EXTRA_STAGES> place;
  wait_for_previous_kernel();
#pragma unroll 1
  for (u32 tile = first_tile() + ring * tile_step(); tile < p.tiles; tile += tile_step() * RINGS) {
    const TilePlace at = place_of(tile, p);
    [[maybe_unused]] Pixel first{};
    if constexpr (PATCH) first = pixel_of(at.row * TILE_M, p);
#if SHORTCUT
    const u32 stage = ring * EXTRA_STAGES + place.stage, barrier = extra_full(shared, stage);
    wait_for_phase(extra_empty(shared, stage), place.phase ^ 1);
    arrive_expecting(barrier, TILE_EXTRA);
#pragma unroll 1
    for (u32 s = 0; s < SHORTCUT_SLICES; ++s) {
      const u32 to = shared + EXTRAS_AT + stage * TILE_EXTRA + s * (TILE_M * SLICE);
      const i32 x = i32(s * PER_SLICE);
      if constexpr (PATCH) load_pixels(to, map_extra, x, i32(first.w), i32(first.h), i32(first.image), 0, 0, barrier);
      else load_tile(to, map_extra, x, i32(at.row * TILE_M), barrier);
    }
    place.advance();
#else
#pragma unroll 1
    for (u32 chunk = at.column * CHUNKS; chunk < (at.column + 1) * CHUNKS; chunk += EXTRA_CHUNKS) {
      const u32 stage = ring * EXTRA_STAGES + place.stage, barrier = extra_full(shared, stage);
      wait_for_phase(extra_empty(shared, stage), place.phase ^ 1);
      arrive_expecting(barrier, TILE_OUT);
#pragma unroll
      for (int piece = 0; piece < ROW_OUT / PIECE; ++piece) {
        const u32 to = shared + EXTRAS_AT + stage * TILE_OUT + piece * (TILE_M * PIECE);
        const i32 x = i32(chunk * TILE_N + piece * (PIECE / BYTES_RESULT));
        if constexpr (PATCH) load_pixels(to, map_extra, x, i32(first.w), i32(first.h), i32(first.image), 0, 0, barrier);
        else load_tile(to, map_extra, x, i32(at.matrix * p.rows + at.row * TILE_M), barrier);
      }
      place.advance();
    }
#endif
  }
}
#endif

#if FUSED_PAIR
DEVICE void load_then(u32 shared, const TensorMap& map_then, [[maybe_unused]] const TensorMap* map_third,
                      [[maybe_unused]] const TensorMap* map_beside) {
#if THIRD
  arrive_expecting(then_full(shared), CHUNKS * THEN_SLICES * BYTES_THEN + BYTES_SHORTCUT + THIRD_SLICES * BYTES_THIRD);
#pragma unroll 1
  for (u32 i = 0; i < THIRD_SLICES; ++i)
    load_tile(shared + THIRD_AT + i * BYTES_THIRD, *map_third, i32(i * (THIRD_SLICE / ELEMENT)), 0, then_full(shared));
#else
  arrive_expecting(then_full(shared), CHUNKS * THEN_SLICES * BYTES_THEN + BYTES_SHORTCUT);
#endif
#if SHORTCUT
#pragma unroll 1
  for (u32 i = 0; i < CHUNKS * SHORTCUT_SLICES; ++i)
    load_tile(shared + SHORTCUT_AT + i * BYTES_B, *map_beside, i32(i % SHORTCUT_SLICES * PER_SLICE),
              i32(i / SHORTCUT_SLICES * TILE_N), then_full(shared));
#endif
#pragma unroll 1
  for (u32 i = 0; i < CHUNKS * THEN_SLICES; ++i)
    load_tile(shared + THEN_AT + i * BYTES_THEN, map_then, i32(i % THEN_SLICES * (THEN_SLICE / ELEMENT)),
              i32(i / THEN_SLICES * TILE_N), then_full(shared));
}
#endif

// What belongs to slice `slice` of B, of its matrix `matrix` from its column `column` on, to the ring's `stage`.
DEVICE void load_b(u32 shared, u32 stage, u32 slice, u32 column, [[maybe_unused]] u32 matrix, const TensorMap& map_b,
                   [[maybe_unused]] const Parameters& p) {
  const u32 to = place_of_b(shared, stage, slice), barrier = full(shared, stage);
  if constexpr (PATCH) {
#pragma unroll 1
    for (u32 tap = 0, of_b = slice; tap < taps_of_slice(p); ++tap, of_b += p.channel_slices)
      load_tile(place_of_b(shared, stage, of_b), map_b, i32(of_b * PER_SLICE), i32(column), barrier);
    return;
  }
  if constexpr (MATRICES == 1) load_box(to, map_b, i32(slice * PER_SLICE), i32(column), i32(matrix), 0, barrier);
  else if constexpr (MATRICES == 2) {
#pragma unroll
    for (int piece = 0; piece < TILE_N / 64; ++piece)
      load_box(to + piece * (PER_SLICE * 128), map_b, i32(column + piece * 64), i32(slice * PER_SLICE), i32(matrix), 0,
               barrier);
  } else if constexpr (SHARERS == 1) load_tile(to, map_b, i32(slice * PER_SLICE), i32(column), barrier);
  else {
    const u32 part = blockIdx.x % SHARERS;
    load_tile_for_blocks(to + part * (BYTES_B / SHARERS), map_b, i32(slice * PER_SLICE),
                         i32(column + part * (TILE_N / SHARERS)), barrier, SHARERS);
  }
}
// A warp has read the ring's `stage`.
DEVICE void release(u32 shared, u32 stage) {
  const u32 lane = threadIdx.x % 32;
  if (lane >= SHARERS) return;
  if constexpr (SHARERS == 1) arrive(empty(shared, stage));
  else arrive_in_block(empty(shared, stage), lane);
}

// The slices of B that belong to the block's first tile and begin the ring: those of its shortcut, and of its own
// unless other tiles' shortcuts come between.
DEVICE u32 first_slices(const Parameters& p) {
  return shortcut_slices(p) + (GROUP == 1 ? my_slices(p).end - my_slices(p).begin : 0);
}
// Of those, the slice of B that is number `i`.
DEVICE u32 first_slice(u32 i, const Parameters& p) {
  const u32 shortcuts = shortcut_slices(p);
  return i < shortcuts ? my_slices(p).end + i : my_slices(p).begin + i - shortcuts;
}
// The number of slices of B that load_weights_ahead loads.
DEVICE u32 slices_ahead(const Parameters& p) {
  const u32 all = MATRICES ? 0 : first_slices(p);  // a computed B comes from the previous kernel
  return all < STAGES ? all : STAGES;
}
DEVICE void load_weights_ahead(u32 shared, const TensorMap& map_b, const Parameters& p) {
  const u32 column = place_of(first_tile(), p).column * TILE_N;
#pragma unroll 1
  for (u32 i = 0; i < slices_ahead(p); ++i) {
    arrive_expecting(full(shared, i), BYTES_A + taps_of_slice(p) * BYTES_B);
    load_b(shared, i, first_slice(i, p), column, 0, map_b, p);
  }
  // Slices that the ring has no room for are prefetched to L2.
  if constexpr (CONSUMERS == 1 && !MATRICES) {
#pragma unroll 1
    for (u32 i = slices_ahead(p); i < first_slices(p); ++i)
      prefetch_tile(map_b, i32(first_slice(i, p) * PER_SLICE), i32(column));
  }
}

// Loads slices `slices` of a tile to the ring; slice 0 is slice `of_b` of B. `ahead`: so many stages have their slices
// of B.
template <bool PIXELS>
DEVICE void fill_tile(u32 shared, RingPlace<STAGES>& place, u32& ahead, u32 tile, const TensorMap& map_a,
                      const TensorMap& map_b, const Taps& taps, const Slices& slices, u32 of_b, const Parameters& p) {
  const TilePlace at = place_of(tile, p);
  const u32 row = at.matrix * p.a_rows + at.row * TILE_M, column = at.column * TILE_N;
  i32 w = 0, h = 0, n = 0;
  if constexpr (PIXELS) {
    const Pixel first = pixel_of(row, p);
    w = i32(first.w) * taps.stride_w - taps.pad_w;
    h = i32(first.h) * taps.stride_h - taps.pad_h;
    n = i32(first.image);
  }
  const bool with_b = !RESIDENT || tile == first_tile();
  u32 c = slices.begin % taps.channel_slices, tap = slices.begin / taps.channel_slices, tap_w = tap % taps.taps_w,
      tap_h = tap / taps.taps_w;
#pragma unroll 1
  for (u32 slice = slices.begin; slice < slices.end; ++slice) {
    const u32 to = shared + place.stage * STAGE, barrier = full(shared, place.stage);
    if (slice == slices.begin) wait_for_previous_kernel();  // in the loop: before it the compiler puts off what it can
    if (ahead > 0) {
      --ahead;
    } else {
      wait_for_phase(empty(shared, place.stage), place.phase ^ 1);
      arrive_expecting(barrier, with_b ? BYTES_A + taps_of_slice(p) * BYTES_B : BYTES_A);
      if (with_b) load_b(shared, place.stage, of_b + slice, column, at.matrix, map_b, p);
    }
    if constexpr (PIXELS)
      load_pixels(to, map_a, i32(c * PER_SLICE), w, h, n, u16(tap_w * taps.dilation_w), u16(tap_h * taps.dilation_h),
                  barrier);
    else load_tile(to, map_a, i32(c * PER_SLICE), i32(row), barrier);
    place.advance();
    if (++c < taps.channel_slices) continue;
    c = 0;
    if (++tap_w < taps.taps_w) continue;
    tap_w = 0;
    ++tap_h;
  }
}
DEVICE void fill_ring(u32 shared, const TensorMap& map_a, const TensorMap& map_b,
                      [[maybe_unused]] const TensorMap* map_shortcut, const Parameters& p) {
  RingPlace<STAGES> place;
  u32 ahead = slices_ahead(p);
#pragma unroll 1
  for (u32 tile = first_tile(); tile < p.tiles; tile += tile_step() * GROUP) {
#if SHORTCUT && !FUSED_PAIR
#pragma unroll 1
    for (u32 i = 0, of_group = tile; i < GROUP && of_group < p.tiles; ++i, of_group += tile_step())
      fill_tile<SHORTCUT_IM2COL>(shared, place, ahead, of_group, *map_shortcut, map_b, p.shortcut,
                                 {0, shortcut_slices(p)}, my_slices(p).end, p);
#endif
#pragma unroll 1
    for (u32 i = 0, of_group = tile; i < GROUP && of_group < p.tiles; ++i, of_group += tile_step())
      fill_tile<IM2COL>(shared, place, ahead, of_group, map_a, map_b, my_taps(p), my_slices(p), 0, p);
  }
}

// 16 bytes of a row of results.
using Chunk = Vec<u32, 4>;
template <class T, int V>
DEVICE Chunk chunk_of(const Finished<T> (&results)[V]) {
  static_assert(sizeof(T) * V == 16);
  Chunk chunk;
  store_results<T, V>(reinterpret_cast<T*>(chunk.at), results);
  return chunk;
}

#if FUSED_PAIR
// The A operand of a product in registers, as `multiply_group` takes it: 32 bytes of the rows' depth a step.
template <int STEPS>
struct Rows {
  u32 at[BLOCKS_M][STEPS][4];
};
// Puts the 16 bytes that the thread has of row number m into the steps of a group of 64 bytes.
template <int STEPS>
DEVICE void put_row(Rows<STEPS>& rows, int m, int group, const Chunk& results) {
#pragma unroll
  for (int i = 0; i < 4; ++i) rows.at[m / 2][group * 2 + i / 2][i % 2 * 2 + m % 2] = results.at[i];
}
// Issues sums += rows * b (sums = rows * b unless `add`) as one wgmma group: b's slices are swizzled by WIDE bytes, and
// lie BYTES apart; the first is at `at_b`.
template <int WIDE, int BYTES, int STEPS, int COUNT>
DEVICE void multiply_rows(Sum (&sums)[BLOCKS_M][COUNT], const Rows<STEPS>& rows, u32 at_b, u32 add) {
  begin_products();
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int m = 0; m < BLOCKS_M; ++m)
      multiply_group(sums[m], rows.at[m][step],
                     descriptor<WIDE>(at_b + step * 32 / WIDE * BYTES) + step * 32 % WIDE / 16, step ? 1 : add);
  commit_products();
}
#endif

#if RAGGED && SPLITS == 1
// The columns of the lane before this one among the four that share a row; the first one gets those of the last.
DEVICE Chunk of_neighbour(const Chunk& mine) {
  const u32 from = (threadIdx.x & 28) | ((threadIdx.x + 3) & 3);
  Chunk theirs;
#pragma unroll
  for (int i = 0; i < 4; ++i) theirs.at[i] = __shfl_sync(0xffffffffu, mine.at[i], from);
  return theirs;
}
// Word by word: of a choice between two places the compiler makes a place in memory.
DEVICE Chunk chosen(bool first, const Chunk& a, const Chunk& b) {
  Chunk out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 x = a.at[i], y = b.at[i];
    out.at[i] = first ? x : y;
  }
  return out;
}
// The last `shift` (less than 16) bytes of `before`, and then the first ones of `mine`.
DEVICE Chunk shifted(const Chunk& before, const Chunk& mine, u32 shift) {
  const u32 begin = 16 - shift, bits = sizeof(Output) < 4 ? begin % 4 * 8 : 0;
  u32 words[8], by_two[6], by_one[5];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = before.at[i], words[i + 4] = mine.at[i];
#pragma unroll
  for (int i = 0; i < 6; ++i) by_two[i] = begin & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) by_one[i] = begin & 4 ? by_two[i + 1] : by_two[i];
  Chunk out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 word = u32((u64(by_one[i + 1]) << 32 | by_one[i]) >> bits);
    out.at[i] = shift ? word : mine.at[i];
  }
  return out;
}
template <class Piece>
DEVICE void store_piece(u8* to, const Chunk& chunk, u32& at, u32 end, bool fits) {
  constexpr u32 SIZE = sizeof(Piece);
  if (SIZE < sizeof(Output) || !fits || at + SIZE > end) return;
  u64 bits;
  if constexpr (SIZE == 8) bits = at ? u64(chunk.at[3]) << 32 | chunk.at[2] : u64(chunk.at[1]) << 32 | chunk.at[0];
  else bits = (at & 8 ? (at & 4 ? chunk.at[3] : chunk.at[2]) : at & 4 ? chunk.at[1] : chunk.at[0]) >> at % 4 * 8;
  *reinterpret_cast<Piece*>(to + at) = Piece(bits);
  at += SIZE;
}
// Stores bytes at..end-1 of the chunk, which is that at `to`, a multiple of 16: in pieces that grow until one does not
// fit, and shrink then.
DEVICE void store_bytes(u8* to, const Chunk& chunk, u32 at, u32 end) {
  store_piece<u8>(to, chunk, at, end, at & 1);
  store_piece<u16>(to, chunk, at, end, at & 2);
  store_piece<u32>(to, chunk, at, end, at & 4);
  store_piece<u64>(to, chunk, at, end, at & 8);
  store_piece<u64>(to, chunk, at, end, true);
  store_piece<u32>(to, chunk, at, end, true);
  store_piece<u16>(to, chunk, at, end, true);
  store_piece<u8>(to, chunk, at, end, true);
}
#endif

#if SPLITS > 1
// A unit is what a warp finishes at a time: V columns for each lane. Block u % SPLITS of the cluster finishes unit u.
// The partial sums of all blocks for a unit lie one behind the other in its shared memory, lanes side by side.
constexpr int UNITS = 4 * BLOCKS_M * 2 * N_GROUPS;
static_assert(UNITS % SPLITS == 0, "blocks finish as many units");
struct alignas(16) Four {
  Sum at[4];
};
DEVICE Four* place_of_part(u32 unit, u32 part) {
  return reinterpret_cast<Four*>(dynamic_shared() + PARTIALS_AT) + (unit / SPLITS * SPLITS + part) * (V / 4 * 32) +
         threadIdx.x % 32;
}
DEVICE u32 first_unit() { return blockIdx.y + threadIdx.x / 32 * SPLITS; }

struct Unit {
  u32 row, column;  // the lane's first
  bool exists;
};
DEVICE Unit unit_of(u32 unit, const Parameters& p) {
  const TilePlace at = place_of(first_tile(), p);
  const u32 lane = threadIdx.x % 32, group = unit % N_GROUPS, m = unit / N_GROUPS % (BLOCKS_M * 2),
            warp = unit / (N_GROUPS * BLOCKS_M * 2);
  const u32 row = at.row * TILE_M + warp * 16 + lane / 4 + m / 2 * 64 + m % 2 * 8,
            column = at.column * TILE_N + (group * 4 + lane % 4) * V;
  return {row, column, unit < UNITS && row < p.rows && column < p.columns};
}
// Inputs of the next unit's epilogue. Those of the first unit are loaded while the products are computed.
struct Ahead {
  ColumnExtras columns;
  RowExtras rows;
  LineExtras lines;
};
DEVICE void read_columns([[maybe_unused]] Ahead& ahead, [[maybe_unused]] const Unit& unit, EXTRAS const Parameters& p) {
  if (unit.exists) { COLUMN_EXTRAS(ahead.columns, unit.column) }
  if constexpr (BY_IMAGE) {
    if (unit.exists) { IMAGE_EXTRAS(ahead.columns, pixel_of(unit.row, p).image, unit.column) }
  }
}
DEVICE void read_rows([[maybe_unused]] Ahead& ahead, [[maybe_unused]] const Unit& unit, EXTRAS const Parameters& p) {
  if (unit.exists) {
    ROW_EXTRAS(ahead.rows, i64(unit.row) * p.extra_ld + unit.column)
    LINE_EXTRAS(ahead.lines, unit.row)
  }
}

// Finishes this block's units, after the barrier of the cluster.
DEVICE void finish_units(Ahead& ahead, EXTRAS Output* out, const Parameters& p) {
  const u32 step = blockDim.x / 32 * SPLITS;
#pragma unroll 1
  for (u32 number = first_unit(); number < UNITS; number += step) {
    const Unit unit = unit_of(number, p);
    Sum sums[V] = {};
#pragma unroll
    for (int part = 0; part < SPLITS; ++part)
#pragma unroll
      for (int v = 0; v < V; v += 4) {
        const Four four = place_of_part(number, part)[v / 4 * 32];
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[v + i] += four.at[i];
      }
    if (unit.exists) {
      Finished<Output> results[V];
#pragma unroll
      for (int v = 0; v < V; ++v) results[v] = EPILOGUE(Acc(sums[v]), ahead.columns, ahead.rows, ahead.lines, v);
      Output* const to = out + i64(unit.row) * p.out_ld + unit.column;
#if RAGGED
      Vec<Output, V> rounded;
      store_results<Output, V>(rounded.at, results);
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (unit.column + v < p.columns) to[v] = rounded.at[v];
#else
      store_results<Output, V>(to, results);
#endif
    }
    const Unit next = unit_of(number + step, p);
    read_columns(ahead, next, EXTRA_NAMES p);
    read_rows(ahead, next, EXTRA_NAMES p);
  }
}
#endif

#if SPLITS == 1
// Where column c of a tile has its number in an array in shared memory, if lanes read W neighbours of 4 bytes: a piece
// of a lane lies beside those of the three others that share its row. One behind the other, 64 bytes of each of four
// lanes would meet in the same banks, and shared memory is what limits INT8 with few channels. Pieces of 16 bytes are
// as many as a load takes at once; copies of each tile go by 32 bytes, since those of 16 to places apart take twice as
// long.
constexpr u32 COLUMN_PIECE = FIXED ? 4 : 8;
template <int W>
DEVICE u32 place_of_column(u32 c) {
  constexpr u32 G = COLUMN_PIECE;
  return W <= int(G) ? c : c / (4 * W) * (4 * W) + c % W / G * (4 * G) + c / W % 4 * G + c % G;
}
// Such an array, which begins with column `first`, as epilogues read it: load_vector of array + column.
template <class T, int W>
struct ColumnArray {
  const T* numbers;
  u32 first;
};
template <class T>
struct ColumnPlace {
  const T* at;
};
template <class T, int W>
DEVICE ColumnPlace<T> operator+(const ColumnArray<T, W>& array, u32 c) {
  return {array.numbers + place_of_column<W>(c - array.first)};
}
template <int W, class T>
DEVICE Vec<T, W> load_vector(const ColumnPlace<T>& from) {
  if constexpr (W <= int(COLUMN_PIECE)) return load_vector<W>(from.at);
  Vec<T, W> numbers;
#pragma unroll
  for (int i = 0; i < W; i += COLUMN_PIECE) {
    const auto piece = load_vector<int(COLUMN_PIECE)>(from.at + i * 4);
#pragma unroll
    for (u32 k = 0; k < COLUMN_PIECE; ++k) numbers.at[i + k] = piece.at[k];
  }
  return numbers;
}
template <class T>
DEVICE const T* array_at(u32 arrays) {
  return reinterpret_cast<const T*>(dynamic_shared() + arrays);
}
// The threads of a warpgroup start an asynchronous copy of `wide` numbers, one a column, from `column` on. The array
// has `columns` numbers; beyond them there are zeros.
template <int W>
DEVICE void copy_array(u32 to, const void* from, u32 column, u32 wide, u32 columns, u32 thread) {
#pragma unroll 1
  for (u32 c = thread * 4; c < wide; c += 128 * 4) {
    const bool exists = column + c < columns;
    copy_chunk(to + place_of_column<W>(c) * 4, static_cast<const u32*>(from) + (exists ? column + c : 0), exists);
  }
}
DEVICE void copy_arrays(u32 to, u32 column, u32 thread, EXTRAS const Parameters& p) {
#define COPY(i, type, name) copy_array<V>(to + i * (ARRAY_N * 4), name, column, ARRAY_N, p.columns, thread);
  FOR_ARRAYS(COPY)
#undef COPY
#if SHORTCUT
#define COPY(i, type, name) copy_array<V>(to + (ARRAYS + i) * (ARRAY_N * 4), name, column, ARRAY_N, p.columns, thread);
  SHORTCUT_FOR_ARRAYS(COPY)
#undef COPY
#endif
  close_group();
}

// Copies the arrays once for all tiles.
DEVICE void copy_fixed_arrays(u32 shared, EXTRAS const Parameters& p) {
  if (!FIXED || threadIdx.x / 128 != 1) return;
  const u32 thread = threadIdx.x % 128;
#if FUSED_PAIR
#define COPY(i, type, name) \
  copy_array<FIRST_V>(shared + FIRST_ARRAYS_AT + i * (TILE_N * 4), name, 0, TILE_N, BETWEEN, thread);
  FIRST_FOR_ARRAYS(COPY)
#undef COPY
#endif
#if THIRD
#define COPY(i, type, name) \
  copy_array<THIRD_V>(shared + THIRD_ARRAYS_AT + i * (THIRD_N * 4), name, 0, THIRD_N, p.third_columns, thread);
  THIRD_FOR_ARRAYS(COPY)
#undef COPY
#endif
  copy_arrays(shared + ARRAYS_AT, place_of(first_tile(), p).column * TILE_N, thread, EXTRA_NAMES p);
}

// Residuals are loaded to registers while the products are computed, if there are enough registers.
constexpr int ROW_WORDS = sizeof(RowExtras) / 4 * BLOCKS_M * 2 * N_GROUPS,
              FREE_REGISTERS = MANY - 62 - sizeof(ColumnExtras) / 4 - BLOCKS_M * TILE_N / 2;
constexpr bool ROWS_AHEAD = SHORTCUT || (EXTRA_STAGES == 0 && ROW_WORDS > 0 && ROW_WORDS <= FREE_REGISTERS);
// Whether consumers read what a previous kernel made before they have multiplied.
constexpr bool READS_EARLY =
    !FUSED_PAIR && (PROLOGUE || !CONSTANT_COLUMNS || BY_IMAGE || !__is_empty(LineExtras) || (ROWS_AHEAD && !SHORTCUT));
struct Early {
  LineExtras lines[BLOCKS_M * 2];
  RowExtras rows[ROWS_AHEAD ? N_GROUPS : 1][ROWS_AHEAD ? BLOCKS_M * 2 : 1];
  u32 image_of[BY_IMAGE ? BLOCKS_M * 2 : 1];
  ImageExtras images[BY_IMAGE ? N_GROUPS : 1];  // of the first row's
};
// `earlier`: rows of the matrices before this one.
DEVICE void read_early(Early& early, [[maybe_unused]] u32 earlier, [[maybe_unused]] u32 row,
                       const OutputRows& of_output, u32 column, EXTRAS const Parameters& p) {
#pragma unroll
  for (int m = 0; m < BLOCKS_M * 2; ++m) {
    [[maybe_unused]] const u32 r = of_output.at[m];
    if (r < p.rows) { LINE_EXTRAS(early.lines[m], r) }
  }
  if constexpr (BY_IMAGE) {
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {  // rows that are no results read of the first image
      early.image_of[m] = of_output.at[m] < p.rows ? pixel_of(row + m / 2 * 64 + m % 2 * 8, p).image : 0;
    }
#pragma unroll
    for (int group = 0; group < N_GROUPS; ++group) {
      const u32 c = column + group * 4 * V;
      if (c < p.columns) { IMAGE_EXTRAS(early.images[group], early.image_of[0], c) }
    }
  }
#if !SHORTCUT
  if constexpr (ROWS_AHEAD) {
#pragma unroll
    for (int group = 0; group < N_GROUPS; ++group)
#pragma unroll
      for (int m = 0; m < BLOCKS_M * 2; ++m) {
        const u32 r = of_output.at[m], c = column + group * 4 * V;
        if (r < p.rows && c < p.columns) { ROW_EXTRAS(early.rows[group][m], i64(earlier + r) * p.extra_ld + c) }
      }
  }
#endif
}

#if THIRD
using PassedOn = Rows<TILE_N * ELEMENT / 32>;
static_assert(TILE_N * ELEMENT % THIRD_SLICE == 0 || THIRD_SLICE % (TILE_N * ELEMENT) == 0,
              "chunks are slices of the third product or parts of one");
#else
struct PassedOn {};
#endif
// An array that was copied to shared memory, by the name that the epilogue reads it by.
#define COPIED(i, type, name) const ColumnArray<type, V> name{array_at<type>(arrays) + i * ARRAY_N, first_column};
#if RAGGED
// As below. Rows of the output begin anywhere: 16 bytes that may be stored at once hold the last columns of a lane and
// the first ones of the next.
DEVICE void finish(const Sum (&sums)[BLOCKS_M][TILE_N / 2], const Early& early, u32, const OutputRows& of_output,
                   u32 column, u8*, u32, u32, [[maybe_unused]] u32 arrays, u32 first_column, EXTRAS Output* out,
                   PassedOn&, const Parameters& p) {
  const u32 quad = threadIdx.x % 4, left = p.columns - first_column;
  const RowExtras rows{};  // there are none
#pragma unroll
  for (int m = 0; m < BLOCKS_M * 2; ++m) {
    const u32 r = of_output.at[m];
    u8* const line = reinterpret_cast<u8*>(out + i64(r < p.rows ? r : 0) * p.out_ld + first_column);
    const u32 shift = u32(reinterpret_cast<u64>(line) % 16);
    u8* const aligned = line - shift;
    const u32 end = r < p.rows ? shift + (left < TILE_N ? left : TILE_N) * u32(sizeof(Output)) : 0;
    Chunk carried{}, last{};  // of the group before; the row's last one, which is not whole
    u32 last_at = 0, last_end = 0;
    // What is written of the chunk `at` bytes behind `aligned`, from its byte `begin` on.
    auto store = [&](const Chunk& chunk, u32 at, u32 begin) {
      const u32 stop = end <= at ? 0 : end - at < 16 ? end - at : 16;
      if (begin == 0 && stop == 16) *reinterpret_cast<Chunk*>(aligned + at) = chunk;
      else if (begin > 0) store_bytes(aligned + at, chunk, begin, stop);
      else if (stop > 0) last = chunk, last_at = at, last_end = stop;
    };
#pragma unroll
    for (int group = 0; group < N_GROUPS; ++group) {
      const u32 own = column + group * 4 * V, c = own < p.columns ? own : first_column;
      [[maybe_unused]] ColumnExtras columns;
      {FOR_ARRAYS(COPIED) COLUMN_EXTRAS(columns, c)} Finished<Output> results[V];
#pragma unroll
      for (int v = 0; v < V; ++v)
        results[v] = EPILOGUE(Acc(sums[m / 2][(group * (V / 2) + v / 2) * 4 + m % 2 * 2 + v % 2]), columns, rows,
                              early.lines[m], v);
      const Chunk mine = chunk_of<Output, V>(results), theirs = of_neighbour(mine);
      store(shifted(chosen(quad == 0, carried, theirs), mine, shift), (group * 4 + quad) * 16,
            group == 0 && quad == 0 ? shift : 0);
      carried = theirs;
    }
    if (quad == 0) store(shifted(carried, carried, shift), TILE_N * u32(sizeof(Output)), 0);
    if (last_end > 0) store_bytes(aligned + last_at, last, 0, last_end);
  }
}
#elif GATED
// As below, of pairs of groups.
DEVICE void finish(const Sum (&sums)[BLOCKS_M][TILE_N / 2], const Early&, u32, const OutputRows& of_output, u32 column,
                   u8*, u32, u32, [[maybe_unused]] u32 arrays, u32 first_column, EXTRAS Output* out, PassedOn&,
                   const Parameters& p) {
#pragma unroll
  for (int group = 0; group < N_GROUPS; group += 2) {
    const u32 c = column + group * 4 * V, to = (first_column + group * 4 * V) / 2 + (column - first_column);
    if (c >= p.columns) continue;
    [[maybe_unused]] ColumnExtras columns, behind;
    {
      FOR_ARRAYS(COPIED)
      COLUMN_EXTRAS(columns, c)
      COLUMN_EXTRAS(behind, c + 4 * V)
    }
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {
      const u32 r = of_output.at[m];
      if (r >= p.rows) continue;
      Finished<Output> results[V];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const int at = (group * (V / 2) + v / 2) * 4 + m % 2 * 2 + v % 2;
        results[v] = GATED_EPILOGUE(Acc(sums[m / 2][at]), columns, Acc(sums[m / 2][at + V / 2 * 4]), behind, v);
      }
      store_results<Output, V>(out + i64(r) * p.out_ld + to, results);
    }
  }
}
#else
// Applies the epilogue to the thread's sums, of which the first is that of `column`. Results go to the output or, with
// STORED, to `tile`, the residual's buffer, in which the thread's first row and column are (my_row, my_column).
// `arrays` is the address of the arrays in shared memory; they begin with column `first_column`. `earlier`: rows of the
// matrices before this one. `passed_on`, with THIRD: gets the results, too.
DEVICE void finish(const Sum (&sums)[BLOCKS_M][TILE_N / 2], const Early& early, u32 earlier,
                   [[maybe_unused]] const OutputRows& of_output, u32 column, [[maybe_unused]] u8* tile,
                   [[maybe_unused]] u32 my_row, [[maybe_unused]] u32 my_column, [[maybe_unused]] u32 arrays,
                   [[maybe_unused]] u32 first_column, EXTRAS Output* out, [[maybe_unused]] PassedOn& passed_on,
                   const Parameters& p) {
  // Of computed matrices a thread stores many small pieces: their rows are found once.
  [[maybe_unused]] Output* lines[MATRICES ? BLOCKS_M * 2 : 1];
#pragma unroll
  for (int m = 0; MATRICES && m < BLOCKS_M * 2; ++m)
    lines[m] = out + i64(earlier + of_output.at[m]) * p.out_ld + column;
#pragma unroll
  for (int group = 0; group < N_GROUPS; ++group) {
    const u32 c = column + group * 4 * V;
    if (c >= p.columns) {
#if THIRD
#pragma unroll
      for (int m = 0; m < BLOCKS_M * 2; ++m) put_row(passed_on, m, group, Chunk{});
#endif
      continue;
    }
    [[maybe_unused]] ColumnExtras columns;
    {
      FOR_ARRAYS(COPIED)
      COLUMN_EXTRAS(columns, c)
    }
    if constexpr (BY_IMAGE) static_cast<ImageExtras&>(columns) = early.images[group];
#if THIRD
    [[maybe_unused]] RowExtras rows[BLOCKS_M * 2]{};  // those that are no results are finished, too
#else
    [[maybe_unused]] RowExtras rows[BLOCKS_M * 2];
#endif
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {
      if constexpr (ROWS_AHEAD) {
        rows[m] = early.rows[group][m];
      } else {
#if SHORTCUT  // they are in registers
#elif EXTRA_STAGES
        const Extra* const EXTRA_NAME = reinterpret_cast<const Extra*>(tile);
        ROW_EXTRAS(rows[m], place_of_mine(my_row, my_column, m, group) / BYTES_RESULT)
#else
        const u32 r = of_output.at[m];
        if (r < p.rows) { ROW_EXTRAS(rows[m], i64(earlier + r) * p.extra_ld + c) }
#endif
      }
    }
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {
      if constexpr (BY_IMAGE) {
        if (m > 0 && early.image_of[m] != early.image_of[m - 1]) { IMAGE_EXTRAS(columns, early.image_of[m], c) }
      }
#if !STORED
      const u32 r = of_output.at[m];
      if (!MATRICES && !THIRD && r >= p.rows) continue;
#endif
      Finished<Output> results[V];
#pragma unroll
      for (int v = 0; v < V; ++v)
        results[v] = EPILOGUE(Acc(sums[m / 2][(group * (V / 2) + v / 2) * 4 + m % 2 * 2 + v % 2]), columns, rows[m],
                              early.lines[m], v);
#if THIRD
      const Chunk rounded = chunk_of<Output, V>(results);
      put_row(passed_on, m, group, rounded);
#if STORED
      store_vector(reinterpret_cast<u32*>(tile + place_of_mine(my_row, my_column, m, group)), rounded);
#else
      if (r < p.rows) store_vector(reinterpret_cast<u32*>(out + i64(r) * p.out_ld + c), rounded);
#endif
#elif STORED
      store_results<Output, V>(reinterpret_cast<Output*>(tile + place_of_mine(my_row, my_column, m, group)), results);
#elif MATRICES
      if (r < p.rows) store_results<Output, V>(lines[m] + group * 4 * V, results);
#else
      store_results<Output, V>(out + i64(r) * p.out_ld + c, results);
#endif
    }
  }
}
#endif
#undef COPIED
#endif

#if FUSED_PAIR
constexpr int BETWEEN_STEPS = THEN_SLICE * THEN_SLICES / 32;
static_assert(BETWEEN_STEPS % 2 == 0, "a thread's 16 bytes are of two steps");
// Applies the first epilogue to the thread's sums of the first product. Columns that do not exist are set to zero:
// their weights are zero, but zero times NaN is not.
DEVICE void put_between(const Sum (&sums)[BLOCKS_M][TILE_N / 2], u32 quad, EXTRAS Rows<BETWEEN_STEPS>& between,
                        [[maybe_unused]] const Parameters& p) {
  using Between = first::Output;
#pragma unroll
  for (int group = 0; group < BETWEEN_STEPS / 2; ++group) {
    const u32 c = (group * 4 + quad) * FIRST_V;
    const bool exists = BETWEEN == TILE_N || c < BETWEEN;
    [[maybe_unused]] first::ColumnExtras columns;
    [[maybe_unused]] const first::RowExtras rows{};  // there are none
    if (exists) {
#define COPIED(i, type, name) const ColumnArray<type, FIRST_V> name{array_at<type>(FIRST_ARRAYS_AT) + i * TILE_N, 0};
      FIRST_FOR_ARRAYS(COPIED)
#undef COPIED
      FIRST_COLUMN_EXTRAS(columns, c)
    }
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {
      Finished<Between> results[FIRST_V];
#pragma unroll
      for (int v = 0; v < FIRST_V; ++v) {
        const Sum sum = sums[m / 2][(group * (FIRST_V / 2) + v / 2) * 4 + m % 2 * 2 + v % 2];
        results[v] = exists ? FIRST_EPILOGUE(first::Acc(sum), columns, rows, 0, v) : Finished<Between>(0);
      }
      put_row(between, m, group, chunk_of<Between, FIRST_V>(results));
    }
  }
}
#endif

#if SHORTCUT
// Applies the shortcut's epilogue to the thread's sums of its product; what it gives is what the epilogue behind reads.
DEVICE void put_shortcut(const Sum (&sums)[BLOCKS_M][TILE_N / 2], Early& early, u32 column, [[maybe_unused]] u32 arrays,
                         [[maybe_unused]] u32 first_column, EXTRAS const Parameters& p) {
  using Joined = shortcut::Output;
#pragma unroll
  for (int group = 0; group < N_GROUPS; ++group) {
    const u32 c = column + group * 4 * V;
    if (c >= p.columns) continue;
    [[maybe_unused]] shortcut::ColumnExtras columns;
    [[maybe_unused]] const shortcut::RowExtras rows{};  // there are none
#define COPIED(i, type, name) \
  const ColumnArray<type, V> name{array_at<type>(arrays) + (ARRAYS + i) * ARRAY_N, first_column};
    { SHORTCUT_FOR_ARRAYS(COPIED) SHORTCUT_COLUMN_EXTRAS(columns, c) }
#undef COPIED
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {
      Finished<Joined> results[V];
#pragma unroll
      for (int v = 0; v < V; ++v)
        results[v] = SHORTCUT_EPILOGUE(shortcut::Acc(sums[m / 2][(group * (V / 2) + v / 2) * 4 + m % 2 * 2 + v % 2]),
                                       columns, rows, 0, v);
      Vec<Joined, V> rounded;
      store_results<Joined, V>(rounded.at, results);
      const Joined* const JOINED = rounded.at;
      ROW_EXTRAS(early.rows[group][m], 0)
    }
  }
}
#endif

#if THIRD
// Finishes the thread's sums of the third product.
DEVICE void finish_third(const Sum (&sums)[BLOCKS_M][THIRD_N / 2], const OutputRows& of_output, u32 quad,
                         EXTRAS third::Output* out, const Parameters& p) {
  [[maybe_unused]] const third::RowExtras rows{};  // there are none
#pragma unroll
  for (int group = 0; group < THIRD_N / (4 * THIRD_V); ++group) {
    const u32 c = (group * 4 + quad) * THIRD_V;
    if (c >= p.third_columns) continue;
    [[maybe_unused]] third::ColumnExtras columns;
    {
#define COPIED(i, type, name) const ColumnArray<type, THIRD_V> name{array_at<type>(THIRD_ARRAYS_AT) + i * THIRD_N, 0};
      THIRD_FOR_ARRAYS(COPIED)
#undef COPIED
      THIRD_COLUMN_EXTRAS(columns, c)
    }
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m) {
      const u32 r = of_output.at[m];
      if (r >= p.rows) continue;
      Finished<third::Output> results[THIRD_V];
#pragma unroll
      for (int v = 0; v < THIRD_V; ++v)
        results[v] = THIRD_EPILOGUE(third::Acc(sums[m / 2][(group * (THIRD_V / 2) + v / 2) * 4 + m % 2 * 2 + v % 2]),
                                    columns, rows, 0, v);
      store_results<third::Output, THIRD_V>(out + i64(r) * p.third_ld + c, results);
    }
  }
}
#endif

#if PROLOGUE
static_assert(!IM2COL && !MATRICES && !FUSED_PAIR, "rows of A are pixels");
// A thread has 16 bytes of every ROWS_APART-th row, of the same channels: swizzling goes by fewer rows.
constexpr int PREPARED_V = 16 / ELEMENT, ROWS_APART = 128 / (SLICE / 16), PREPARED_ROWS = WARPGROUP_M / ROWS_APART;
struct PreparedRows {
  u32 image = 0, next = 0;     // of the first and of the last row: images are longer than a tile
  u32 others = PREPARED_ROWS;  // the number of the first row that is of the next image
};
// `row`: the first of the consumer's tile. Rows beyond the last one are of its image.
DEVICE PreparedRows prepared_rows([[maybe_unused]] u32 row, [[maybe_unused]] const Parameters& p) {
  PreparedRows out;
  if constexpr (PROLOGUE_BY_IMAGE) {
    const u32 first = row + threadIdx.x % 128 / (SLICE / 16), last = first + (PREPARED_ROWS - 1) * ROWS_APART;
    out.image = pixel_of(first < p.rows ? first : p.rows - 1, p).image;
    out.next = pixel_of(last < p.rows ? last : p.rows - 1, p).image;
    const u32 next_row = out.next * (p.walked_w.divisor * p.walked_h.divisor);
    if (out.next != out.image) out.others = (next_row - first + ROWS_APART - 1) / ROWS_APART;
  }
  return out;
}
// The first of the thread's channels in slice `slice`.
DEVICE u32 prepared_channel(u32 slice) {
  const u32 at = threadIdx.x % 128 * 16;
  return slice * PER_SLICE + (at ^ (at >> 3 & (SLICE - 16))) % SLICE / ELEMENT;
}
DEVICE void prepare_row(u8* at, const InputExtras& extras) {
  const Vec<In, PREPARED_V> x = load_vector<PREPARED_V>(reinterpret_cast<const In*>(at));
  Finished<Operand> results[PREPARED_V];
#pragma unroll
  for (int v = 0; v < PREPARED_V; ++v) results[v] = PREPARED(x.at[v], extras, v);
  store_results<Operand, PREPARED_V>(reinterpret_cast<Operand*>(at), results);
}
// What the program reads beside the rows, of the first image and of the next one, for channels from `c` on.
struct PreparedExtras {
  InputExtras first, next;
};
DEVICE void read_extras([[maybe_unused]] PreparedExtras& to, u32 c, [[maybe_unused]] const PreparedRows& rows,
                        EXTRAS const Parameters& p) {
  if (c >= p.channels) return;
  INPUT_EXTRAS(to.first, rows.image, c)
  if constexpr (PROLOGUE_BY_IMAGE) {
    if (rows.others < PREPARED_ROWS) { INPUT_EXTRAS(to.next, rows.next, c) }
  }
}
// Applies the program to the thread's part of the consumer's rows, which begin at `tile`, for channels from `c` on.
// Channels that do not exist stay zero.
DEVICE void prepare(u8* tile, u32 c, const PreparedExtras& extras, const PreparedRows& rows, const Parameters& p) {
  if (c >= p.channels) return;
  u8* const mine = tile + threadIdx.x % 128 * 16;
  if (!PROLOGUE_BY_IMAGE || rows.others == PREPARED_ROWS) {
#pragma unroll
    for (int i = 0; i < PREPARED_ROWS; ++i) prepare_row(mine + i * (ROWS_APART * SLICE), extras.first);
    return;
  }
#pragma unroll
  for (int i = 0; i < PREPARED_ROWS; ++i) {
    InputExtras of_row = extras.next;
    if (i < rows.others) of_row = extras.first;
    prepare_row(mine + i * (ROWS_APART * SLICE), of_row);
  }
}
#endif

// What a consumer prepares its rows of A with, slice after slice.
#if PROLOGUE
struct Prepared {
  PreparedRows rows;
  u32 channel;            // of the next slice
  PreparedExtras extras;  // of the next slice
};
#else
struct Prepared {};
#endif
// Issues sums += the products of all taps of a slice (sums = them unless `add`) as one wgmma group. The rows of the
// first tap begin at `at_a`, its slice of B at `at_b`.
DEVICE void multiply_taps(Sum (&sums)[BLOCKS_M][TILE_N / 2], u32 at_a, u32 at_b, u32 add, const Parameters& p) {
  const u32 to_next = u32(p.dilation_w) * SLICE / 16, of_b = p.channel_slices * (BYTES_B / 16),
            to_line = u32(p.dilation_h) * p.walked_w.divisor * SLICE / 16 - p.taps_w * to_next;
  u64 a = descriptor<SLICE>(at_a), b = descriptor<SLICE>(at_b);
  begin_products();
#pragma unroll 1
  for (u32 tap_h = 0; tap_h < p.taps_h; ++tap_h, a += to_line)
#pragma unroll 1
    for (u32 tap_w = 0; tap_w < p.taps_w; ++tap_w, a += to_next, b += of_b, add = 1)
      issue_slice<SLICE>(sums, a, b, add);
  commit_products();
}
// sums = the product of the consumer's rows of a tile, whose `slices` are the next ones of the ring; the first one is
// slice `of_b` of B. As soon as all of them are there, `next` begins its own, unless it has (`gave_turn`).
DEVICE void multiply_tile(Sum (&sums)[BLOCKS_M][TILE_N / 2], u32 shared, u32 consumer, RingPlace<STAGES>& place,
                          u32 slices, u32 of_b, u32 next, bool gave_turn, [[maybe_unused]] Prepared& prepared,
                          EXTRAS const Parameters& p) {
  u32 before = 0;
#pragma unroll 1
  for (u32 s = 0; s < slices; ++s) {
#if PROLOGUE
    const u32 c = prepared.channel;
    const PreparedExtras extras = prepared.extras;
    prepared.channel += PER_SLICE;
    if (s + 1 < slices) read_extras(prepared.extras, prepared.channel, prepared.rows, EXTRA_NAMES p);
#endif
    wait_for_phase(full(shared, place.stage), place.phase);
#if PROLOGUE
    const u32 first_row = COOPERATIVE ? consumer * WARPGROUP_M : 0;
    prepare(dynamic_shared() + place.stage * STAGE + first_row * SLICE, c, extras, prepared.rows, p);
    publish_shared();
    meet_warps(consumer, 128);
#endif
    const u32 at_a = shared + place.stage * STAGE + (COOPERATIVE ? consumer * WARPGROUP_M * SLICE : 0),
              at_b = place_of_b(shared, place.stage, of_b + s);
    // All warps arrive: otherwise the next consumer could finish a round while one of these has not started its own.
    const bool gives_turn = !gave_turn && s + 1 == slices;
    renew(sums);
    if constexpr (PATCH > 0) {
      if (gives_turn) give_turn(shared, next);  // many products follow: those of the next consumer run beside them
      multiply_taps(sums, at_a, at_b, s > 0, p);
    } else {
#if MATRICES == 2
      multiply_slice_by_rows(sums, at_a, at_b, s > 0);
#else
      multiply_slice<SLICE>(sums, at_a, at_b, s > 0);
#endif
      if (gives_turn) give_turn(shared, next);
    }
    // The previous slice is no longer read when at most this group of products is in flight.
    wait_for_products<1>();
    if (s > 0) release(shared, before);
    before = place.stage;
    place.advance();
  }
  wait_for_products<0>();
  renew(sums);
  release(shared, before);
}

#if THIRD
using Third = third::Output;
#else
using Third = Output;
#endif
// `third_out` is null without THIRD.
DEVICE void finish_tiles(u32 shared, u32 consumer, EXTRAS Output* out, [[maybe_unused]] Third* third_out,
                         [[maybe_unused]] const TensorMap* map_out, const Parameters& p) {
  const u32 thread = threadIdx.x % 128, slices = my_slices(p).end - my_slices(p).begin, before = shortcut_slices(p);
  [[maybe_unused]] const u32 my_row = thread / 32 * 16 + thread % 32 / 4 + (COOPERATIVE ? consumer * WARPGROUP_M : 0),
                             my_column = thread % 4 * V;
  RingPlace<STAGES> place;
  [[maybe_unused]] RingPlace<EXTRA_STAGES> extra;
  if (!COOPERATIVE) place.advance(consumer * (GROUP > 1 ? before : slices));
#if EXTRA_STAGES
  const u32 ring = COOPERATIVE ? 0 : consumer;
#endif
  [[maybe_unused]] bool stored = false;  // a buffer was stored and is not released yet
  u32 turn = consumer == 0;              // nobody has a tile before the first
#if FUSED_PAIR
  wait_for_phase(then_full(shared), 0);
#endif
#if SPLITS == 1
  u32 turn_of_arrays = 0;
  if constexpr (READS_EARLY) wait_for_previous_kernel();
  if (FIXED && ALL_ARRAYS + FIRST_ARRAYS + THIRD_ARRAYS > 0) {
    wait_for_groups<0>();
    meet_warps(CONSUMERS, 128 * CONSUMERS);
  }
#endif
#pragma unroll 1
  for (u32 tile = first_tile() + (COOPERATIVE ? 0 : consumer * tile_step()); tile < p.tiles;
       tile += tile_step() * (COOPERATIVE ? 1 : CONSUMERS)) {
    const TilePlace at_tile = place_of(tile, p);
    [[maybe_unused]] const u32 earlier = at_tile.matrix * p.rows;
    [[maybe_unused]] const u32 row = at_tile.row * TILE_M + my_row, first_column = at_tile.column * TILE_N,
                               column = first_column + my_column;
#if SPLITS == 1
    const OutputRows of_output = output_rows(row, p);
    const u32 arrays = ARRAYS_AT + (FIXED ? 0 : (consumer * 2 + turn_of_arrays) * BYTES_ARRAYS);
    if (!FIXED && ALL_ARRAYS > 0) copy_arrays(shared + arrays, first_column, thread, EXTRA_NAMES p);
    Early early;
    if (!FUSED_PAIR) read_early(early, earlier, row, of_output, column, EXTRA_NAMES p);
#endif
    // Consumers start their tiles in order. A barrier tells only odd rounds of the ring from even ones, so a consumer
    // waits here until the one before it has seen all slices of its own tile.
    if (!COOPERATIVE) wait_for_phase(turn_of(shared, consumer), turn), turn ^= 1;
#if STORED
    if (!COOPERATIVE && stored) give_tile_back(shared, ring, extra);
#endif
    // Of a group the consumers have a tile each; the last group may have fewer.
    u32 others = GROUP > 1 ? 0 : CONSUMERS - 1 - consumer;
#pragma unroll
    for (u32 i = 1; i < GROUP; ++i) others += consumer + i < CONSUMERS && tile + i * tile_step() < p.tiles;
    const u32 next = others > 0 ? consumer + 1 : 0;
    Prepared prepared;
    bool gave_turn = COOPERATIVE;
#if PROLOGUE
    prepared.rows = prepared_rows(at_tile.row * TILE_M + (COOPERATIVE ? consumer * WARPGROUP_M : 0), p);
    prepared.channel = prepared_channel(my_slices(p).begin);
    read_extras(prepared.extras, prepared.channel, prepared.rows, EXTRA_NAMES p);
    // The next consumer prepares its tile beside this one, as soon as all slices of this one are there.
    if (!COOPERATIVE && slices <= STAGES) {
      RingPlace<STAGES> of_slice = place;
#pragma unroll 1
      for (u32 s = 0; s < slices; ++s, of_slice.advance()) wait_for_phase(full(shared, of_slice.stage), of_slice.phase);
      give_turn(shared, next);
      gave_turn = true;
    }
#endif
    Sum sums[BLOCKS_M][TILE_N / 2];  // of the second product, too: an array of its own would get registers beside these
#if SHORTCUT && !FUSED_PAIR
    multiply_tile(sums, shared, consumer, place, before, my_slices(p).end, next, gave_turn, prepared, EXTRA_NAMES p);
    if (!COOPERATIVE) place.advance(others * before + consumer * slices);
    if (!FIXED && ALL_ARRAYS > 0) {
      wait_for_groups<0>();
      meet_warps(consumer, 128);
    }
    put_shortcut(sums, early, column, arrays, first_column, EXTRA_NAMES p);
    if (!COOPERATIVE) wait_for_phase(turn_of(shared, consumer), turn), turn ^= 1;
#endif
    multiply_tile(sums, shared, consumer, place, slices, 0, next, gave_turn, prepared, EXTRA_NAMES p);
    if (!COOPERATIVE)
      place.advance(GROUP > 1 ? (CONSUMERS - 1 - consumer) * slices + consumer * before : (CONSUMERS - 1) * slices);
#if SPLITS > 1
#pragma unroll
    for (int m = 0; m < BLOCKS_M * 2; ++m)
#pragma unroll
      for (int v = 0; v < N_GROUPS * V; v += 4) {
        Four four;
#pragma unroll
        for (int i = 0; i < 4; ++i) four.at[i] = sums[m / 2][(v + i) / 2 * 4 + m % 2 * 2 + i % 2];
        const u32 unit = (thread / 32 * (BLOCKS_M * 2) + m) * N_GROUPS + v / V;
        in_block(place_of_part(unit, blockIdx.y), unit % SPLITS)[v % V / 4 * 32] = four;
      }
#else
#if FUSED_PAIR
    Rows<BETWEEN_STEPS> between;
    put_between(sums, thread % 4, EXTRA_NAMES between, p);
#endif
    [[maybe_unused]] PassedOn passed_on;  // what a third product reads
#if THIRD
    Sum third_sums[BLOCKS_M][THIRD_N / 2];
#endif
    if (!SHORTCUT && !FIXED && ARRAYS > 0) wait_for_groups<0>();
    // The barrier comes before a thread reads what others have written. After it every warp has finished the tile
    // before the last, too, whose arrays are overwritten next.
    if (!SHORTCUT && !FIXED && ARRAYS > 0) meet_warps(consumer, 128);
#pragma unroll 1
    for (u32 chunk = 0; chunk < CHUNKS; ++chunk) {
#if STORED
      if (COOPERATIVE ? stored : chunk > 0 && chunk % EXTRA_CHUNKS == 0) give_tile_back(shared, ring, extra);
#endif
#if FUSED_PAIR
      read_early(early, earlier, row, of_output, chunk * TILE_N + my_column, EXTRA_NAMES p);
#if SHORTCUT
      const u32 held = ring * EXTRA_STAGES + extra.stage,
                at_held = shared + EXTRAS_AT + held * TILE_EXTRA + (COOPERATIVE ? consumer * WARPGROUP_M * SLICE : 0);
      if (chunk == 0) wait_for_phase(extra_full(shared, held), extra.phase);
      renew(sums);
#pragma unroll
      for (int s = 0; s < SHORTCUT_SLICES; ++s)
        multiply_slice<SLICE>(sums, at_held + s * (TILE_M * SLICE),
                              shared + SHORTCUT_AT + (chunk * SHORTCUT_SLICES + s) * BYTES_B, s > 0);
      wait_for_products<0>();
      renew(sums);
      if (chunk + 1 == CHUNKS) {
        if (thread % 32 == 0) arrive(extra_empty(shared, held));
        extra.advance();
      }
      put_shortcut(sums, early, chunk * TILE_N + column, arrays, first_column, EXTRA_NAMES p);
#endif
      renew(sums);
      multiply_rows<THEN_SLICE, BYTES_THEN>(sums, between, shared + THEN_AT + chunk * (THEN_SLICES * BYTES_THEN), 0);
      wait_for_products<0>();
      renew(sums);
#endif
      u8* tile_out = nullptr;
#if EXTRA_STAGES && !SHORTCUT
      const u32 stage = ring * EXTRA_STAGES + extra.stage;
      wait_for_phase(extra_full(shared, stage), extra.phase);
      tile_out = dynamic_shared() + EXTRAS_AT + stage * TILE_OUT;
#endif
      finish(sums, early, earlier, of_output, chunk * TILE_N + column, tile_out, my_row,
             chunk % EXTRA_CHUNKS * TILE_N + my_column, arrays, first_column, EXTRA_NAMES out, passed_on, p);
#if THIRD
      const u32 depth = chunk * (TILE_N * ELEMENT);
      renew(third_sums);
      multiply_rows<THIRD_SLICE, BYTES_THIRD>(
          third_sums, passed_on, shared + THIRD_AT + depth / THIRD_SLICE * BYTES_THIRD + depth % THIRD_SLICE,
          chunk > 0);
      wait_for_products<0>();
      renew(third_sums);
#endif
#if EXTRA_STAGES && !SHORTCUT
      if ((chunk + 1) % EXTRA_CHUNKS != 0 && chunk + 1 < CHUNKS) continue;
#if STORED
      store_rows(shared + EXTRAS_AT + stage * TILE_OUT, my_row - thread % 32 / 4, at_tile.row * TILE_M,
                 first_column * CHUNKS + chunk / EXTRA_CHUNKS * (EXTRA_CHUNKS * TILE_N), *map_out);
      stored = true;
#else
      __syncwarp();
      if (thread % 32 == 0) arrive(extra_empty(shared, stage));
#endif
      extra.advance();
#endif
    }
#if THIRD
    finish_third(third_sums, of_output, thread % 4, EXTRA_NAMES third_out, p);
#endif
    turn_of_arrays ^= 1;
#endif
  }
#if STORED
  wait_for_stores();
#endif
}

#if SPLITS * SHARERS > 1
#define CLUSTER __cluster_dims__(SHARERS, SPLITS, 1)
#else
#define CLUSTER
#endif

extern "C" __global__ void CLUSTER __launch_bounds__(128 * (1 + CONSUMERS), LEAST_BLOCKS)
    pipeline(EXTRAS Output* out,
#if THIRD
             third::Output* third_out,
#endif
             const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
#if SHORTCUT
             const __grid_constant__ TensorMap map_of_shortcut,
#endif
#if EXTRA_STAGES && !SHORTCUT
             const __grid_constant__ TensorMap map_extra,
#endif
#if STORED
             const __grid_constant__ TensorMap map_out,
#endif
#if FUSED_PAIR
             const __grid_constant__ TensorMap map_then,
#endif
#if THIRD
             const __grid_constant__ TensorMap map_third,
#endif
#if SHORTCUT && FUSED_PAIR
             const __grid_constant__ TensorMap map_of_beside,
#endif
             const __grid_constant__ Parameters p) {
  const u32 shared = shared_address(dynamic_shared());
#if STORED
  const TensorMap* const maps_out = &map_out;
#else
  const TensorMap* const maps_out = nullptr;
#endif
#if THIRD
  const TensorMap* const map_of_third = &map_third;
#else
  [[maybe_unused]] const TensorMap* const map_of_third = nullptr;
  Output* const third_out = nullptr;
#endif
#if SHORTCUT
  const TensorMap* const map_shortcut = &map_of_shortcut;
#else
  const TensorMap* const map_shortcut = nullptr;
#endif
#if SHORTCUT && FUSED_PAIR
  const TensorMap* const map_beside = &map_of_beside;
#else
  [[maybe_unused]] const TensorMap* const map_beside = nullptr;
#endif
  launch_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(map_a);
    prefetch_map(map_b);
    for (u32 stage = 0; stage < STAGES; ++stage) {
      barrier_init(full(shared, stage), 1);
      // A lane of each warp that reads it.
      barrier_init(empty(shared, stage), (COOPERATIVE ? 4 * CONSUMERS : 4) * SHARERS);
    }
    for (u32 consumer = 0; consumer < CONSUMERS; ++consumer) barrier_init(turn_of(shared, consumer), 4);
    for (u32 stage = 0; stage < EXTRA_TILES; ++stage) {
      barrier_init(extra_full(shared, stage), 1);
      barrier_init(extra_empty(shared, stage), COOPERATIVE ? 4 * CONSUMERS : 4);
    }
    if (FUSED_PAIR) barrier_init(then_full(shared), 1);
    publish_barriers();
  }
#if SPLITS * SHARERS > 1
  meet_cluster();  // from here on blocks may write to one another's shared memory
#else
  __syncthreads();
#endif
  if (threadIdx.x == 0) {
    load_weights_ahead(shared, map_b, p);
#if FUSED_PAIR
    load_then(shared, map_then, map_of_third, map_beside);
#endif
  }
#if SPLITS > 1
  Ahead ahead;
  const Unit unit = unit_of(first_unit(), p);
  if (!CONSTANT_COLUMNS) wait_for_previous_kernel();
  read_columns(ahead, unit, EXTRA_NAMES p);
  if constexpr (!__is_empty(RowExtras) || !__is_empty(LineExtras)) {
    wait_for_previous_kernel();
    read_rows(ahead, unit, EXTRA_NAMES p);
  }
#else
  if (!CONSTANT_COLUMNS) wait_for_previous_kernel();
  copy_fixed_arrays(shared, EXTRA_NAMES p);
#endif
  if (threadIdx.x < 128) {
    if constexpr (CONSUMERS > 1) give_registers<FEW>();
    if (threadIdx.x == 0) fill_ring(shared, map_a, map_b, map_shortcut, p);
#if EXTRA_STAGES
    // Threads of the other three warps of the producer load the residual, one for each ring.
    if (const u32 ring = threadIdx.x / 32 - 1 + threadIdx.x % 32 * 3; threadIdx.x >= 32 && ring < RINGS)
#if SHORTCUT
      fill_extras(shared, ring, map_of_shortcut, p);
#else
      fill_extras(shared, ring, map_extra, p);
#endif
#endif
  } else {
    if constexpr (CONSUMERS > 1) take_registers<MANY>();
    finish_tiles(shared, same_for_warp(threadIdx.x / 128 - 1), EXTRA_NAMES out, third_out, maps_out, p);
  }
#if SHARERS > 1
  __syncwarp();
  meet_cluster();  // a block must be there as long as the other one writes to it
#endif
#if SPLITS > 1
  __syncwarp();
  meet_cluster();
  finish_units(ahead, EXTRA_NAMES out, p);
#endif
}
#endif
