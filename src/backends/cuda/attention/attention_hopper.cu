// SPDX-License-Identifier: Apache-2.0
// Attention on Hopper (sm_90a), by TMA and wgmma, in the manner of FlashAttention-3 (Shah et al. 2024).
//
// A block has CONSUMERS warpgroups with 64 queries of one head each, and behind them a producer, one thread of which
// loads the queries and then blocks of KEYS keys and values into a ring of STAGES. Scores stay in registers: they are
// sums of the first product, and become the rows of the second as they lie. A warpgroup issues the product of the next
// block of keys before that of this block's weights with its values, and computes the softmax of the one while the
// tensor cores compute the other. Two to four warpgroups take turns to issue products (ping-pong), so that one has
// the tensor cores while another computes exponents.
//
// IN_TURN: a block works at one tile of queries after the other, as far apart as the grid has blocks. The ring goes on
// from tile to tile, and the queries of the next tile have a place of their own, so that loads never stop: of short
// sequences a block's products and exponents take less time than the wait for its first keys.
//
// Heads lie in shared memory as pieces of 64 elements: a piece has all rows, each of 128 bytes, swizzled by as many.
// What lies beyond the tensors' ends reads as zeros; TMA stores no results there.
//
// Defined before this text: what scores.cuh wants, CONSUMERS, STAGES, LEAST_BLOCKS (of an SM), IN_TURN, QUERY_SIZE
// and VALUE_SIZE (the sizes of a head, rounded up to 64), QUERY_DEPTH (what the first product sums: the size rounded up
// to 16), VALUE_COLUMNS (what the second one computes, at most VALUE_SIZE), and ARGUMENTS: the mask and the lengths
// where there are some, each with a comma behind it.
using Sum = float;
#include "backends/cuda/attention/scores.cuh"
#include "backends/cuda/support/wgmma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr int ROWS = CONSUMERS * 64, PIECE = 64;
constexpr int QUERY_PIECES = QUERY_SIZE / PIECE, VALUE_PIECES = VALUE_SIZE / PIECE;
constexpr int ROW_PIECES = QUERY_PIECES > VALUE_PIECES ? QUERY_PIECES : VALUE_PIECES;  // queries, and later results
constexpr int BYTES_ROWS = 64 * 128, BYTES_QUERIES = ROW_PIECES * BYTES_ROWS;          // of a warpgroup
constexpr int BYTES_PIECE = KEYS * 128, BYTES_KEYS = QUERY_PIECES * BYTES_PIECE,
              BYTES_VALUES = VALUE_PIECES * BYTES_PIECE;
constexpr int TILES = IN_TURN ? 2 : 1;  // of queries, that have a place
constexpr int STAGES_AT = TILES * CONSUMERS * BYTES_QUERIES,
              BARRIERS = STAGES_AT + STAGES * (BYTES_KEYS + BYTES_VALUES);
constexpr int PRODUCERS = CONSUMERS > 1 ? 128 : 32;  // threads; a warpgroup can give its registers away
// Of those that the threads of a block are given at first, all but a few go to the consumers.
constexpr int FEW = CONSUMERS == 3 ? 32 : 24, MANY = CONSUMERS == 4 ? 112 : CONSUMERS == 3 ? 160 : 240;

DEVICE u32 keys_at(u32 shared, u32 stage) { return shared + STAGES_AT + stage * (BYTES_KEYS + BYTES_VALUES); }
DEVICE u32 values_at(u32 shared, u32 stage) { return keys_at(shared, stage) + BYTES_KEYS; }
// Barriers: a tile's queries are there, and its results were read; keys and values of a stage are there, and were read;
// whose turn it is.
DEVICE u32 queries_full(u32 shared, u32 tile) { return shared + BARRIERS + tile * 8; }
DEVICE u32 queries_empty(u32 shared, u32 tile) { return queries_full(shared, TILES + tile); }
DEVICE u32 keys_full(u32 shared, u32 stage) { return queries_full(shared, 2 * TILES + stage); }
DEVICE u32 values_full(u32 shared, u32 stage) { return keys_full(shared, STAGES + stage); }
DEVICE u32 keys_empty(u32 shared, u32 stage) { return keys_full(shared, 2 * STAGES + stage); }
DEVICE u32 values_empty(u32 shared, u32 stage) { return keys_full(shared, 3 * STAGES + stage); }
DEVICE u32 turn_of(u32 shared, u32 consumer) { return keys_full(shared, 4 * STAGES + consumer); }

// Loads all pieces of some rows of a head, from row `row` on; a piece takes `bytes`.
template <int PIECES>
DEVICE void load_head(u32 to, u32 bytes, const TensorMap& map, u32 head, i32 row, u32 batch, u32 barrier) {
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece)
    load_box(to + piece * bytes, map, piece * PIECE, i32(head), row, i32(batch), barrier);
}

DEVICE u32 queries_at(u32 tile, u32 consumer) { return (tile * CONSUMERS + consumer) * BYTES_QUERIES; }

// Loads the queries of a tile, and its keys and values to the ring.
DEVICE void load(u32 shared, const Place& at, u32 tile, RingPlace<STAGES>& ring, const TensorMap& map_q,
                 const TensorMap& map_k, const TensorMap& map_v) {
  arrive_expecting(queries_full(shared, tile), CONSUMERS * QUERY_PIECES * BYTES_ROWS);
#pragma unroll
  for (int consumer = 0; consumer < CONSUMERS; ++consumer)
    load_head<QUERY_PIECES>(shared + queries_at(tile, consumer), BYTES_ROWS, map_q, at.head,
                            at.first_row + consumer * 64, at.batch, queries_full(shared, tile));
#pragma unroll 1
  for (i32 block = 0; block < at.blocks; ++block) {
    const i32 key = at.first_key + block * KEYS;
    wait_for_phase(keys_empty(shared, ring.stage), ring.phase ^ 1);
    arrive_expecting(keys_full(shared, ring.stage), BYTES_KEYS);
    load_head<QUERY_PIECES>(keys_at(shared, ring.stage), BYTES_PIECE, map_k, at.kv_head, key, at.batch,
                            keys_full(shared, ring.stage));
    wait_for_phase(values_empty(shared, ring.stage), ring.phase ^ 1);
    arrive_expecting(values_full(shared, ring.stage), BYTES_VALUES);
    load_head<VALUE_PIECES>(values_at(shared, ring.stage), BYTES_PIECE, map_v, at.kv_head, key, at.batch,
                            values_full(shared, ring.stage));
    ring.advance();
  }
}

// Issues the products of the warpgroup's queries with a block of keys.
DEVICE void multiply_keys(float (&s)[SCORES], u32 queries, u32 keys) {
  renew(s);
  begin_products();
#pragma unroll
  for (int piece = 0; piece < QUERY_PIECES; ++piece)
#pragma unroll
    for (int step = 0; step < 4; ++step)
      if (piece * PIECE + step * 16 < QUERY_DEPTH)
        multiply_group(s, descriptor<128>(queries + piece * BYTES_ROWS) + step * 2,
                       descriptor<128>(keys + piece * BYTES_PIECE) + step * 2, piece + step > 0);
  commit_products();
}
// Issues the products of weights with the values of a block.
DEVICE void multiply_values(float (&y)[VALUE_COLUMNS / 2], const u32 (&weights)[KEYS / 16][4], u32 values, u32 add) {
  renew(y);
  begin_products();
#pragma unroll
  for (int step = 0; step < KEYS / 16; ++step)
    multiply_group_by_rows(y, weights[step], descriptor_of_rows(values + step * 16 * 128, BYTES_PIECE), step ? 1 : add);
  commit_products();
}

// Where a consumer is: in the rings of keys and values, whose turn comes next, and the tile before this one whose
// results TMA may still read.
struct Progress {
  RingPlace<STAGES> keys, values;
  u32 turn;
  bool storing;
};

// The producer may overwrite the tile before `tile`, when TMA has read the results there.
DEVICE void give_tile_back(u32 shared, u32 tile, Progress& progress) {
  if (!IN_TURN || !progress.storing) return;
  progress.storing = false;
  if (threadIdx.x % 128 != 0) return;
  wait_for_stores();
  arrive(queries_empty(shared, tile ^ 1));
}

DEVICE void attend(u32 shared, u32 consumer, const Place& at, const RingPlace<TILES>& tile, Progress& progress,
                   const Mask* mask, const TensorMap& map_y, const Parameters& p) {
  const u32 thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const u32 queries = shared + queries_at(tile.stage, consumer);
  Rows rows{at.first_row + i32(consumer * 64 + warp * 16 + lane / 4)};
#pragma unroll
  for (int half = 0; half < 2; ++half) rows.range[half] = keys_of(p, rows.row + half * 8, at.length);
  Masks masks;
  auto limit = [&](float (&s)[SCORES], i32 block) {
    const i32 key = at.first_key + block * KEYS;
    limit_scores(s, p, mask, masks, rows, key, key < at.of_last.first || key + KEYS > at.of_first.end);
  };
  auto take_turn = [&] {
    if (CONSUMERS > 1) wait_for_phase(turn_of(shared, consumer), progress.turn), progress.turn ^= 1;
  };
  auto pass_turn = [&] {
    if (CONSUMERS == 1) return;
    __syncwarp();  // a lane that still waited for this turn would miss it if the next one ended meanwhile
    if (lane == 0) arrive(turn_of(shared, consumer + 1 < CONSUMERS ? consumer + 1 : 0));
  };

  Sums mine;
  float s[SCORES], y[VALUE_COLUMNS / 2], before[2];
  u32 weights[KEYS / 16][4];
#pragma unroll
  for (int i = 0; i < VALUE_COLUMNS / 2; ++i) y[i] = 0;
  auto pack = [&] {
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step) {
      pack_weights(weights[step], s, step);
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[step][i] = renewed(weights[step][i]);  // before wgmma reads registers
    }
  };

  RingPlace<STAGES>&keys = progress.keys, &values = progress.values;
  if (at.blocks > 0) read_ahead(masks, p, mask, at.first_key);
  wait_for_phase(queries_full(shared, tile.stage), tile.phase);
  if (at.blocks > 0) {
    wait_for_phase(keys_full(shared, keys.stage), keys.phase);
    take_turn();
    multiply_keys(s, queries, keys_at(shared, keys.stage));
    pass_turn();
    give_tile_back(shared, tile.stage, progress);
    wait_for_products<0>();
    renew(s);
    if (lane == 0) arrive(keys_empty(shared, keys.stage));
    keys.advance();
    limit(s, 0);
    weigh(s, mine, before, p.unit);
    pack();
#pragma unroll 1
    for (i32 block = 1; block < at.blocks; ++block) {
      read_ahead(masks, p, mask, at.first_key + block * KEYS);
      wait_for_phase(keys_full(shared, keys.stage), keys.phase);
      take_turn();
      multiply_keys(s, queries, keys_at(shared, keys.stage));
      wait_for_phase(values_full(shared, values.stage), values.phase);
      multiply_values(y, weights, values_at(shared, values.stage), 1);
      pass_turn();
      wait_for_products<1>();
      renew(s);
      if (lane == 0) arrive(keys_empty(shared, keys.stage));
      keys.advance();
      limit(s, block);
      weigh(s, mine, before, p.unit);
      wait_for_products<0>();
      renew(y);
      if (lane == 0) arrive(values_empty(shared, values.stage));
      values.advance();
#pragma unroll
      for (int i = 0; i < VALUE_COLUMNS / 2; ++i) y[i] *= before[i / 2 % 2];
      pack();
    }
    wait_for_phase(values_full(shared, values.stage), values.phase);
    multiply_values(y, weights, values_at(shared, values.stage), 1);
    wait_for_products<0>();
    renew(y);
    if (IN_TURN && lane == 0) arrive(values_empty(shared, values.stage));
    values.advance();
  }

  // Through the rows of the queries, which are the warpgroup's own and not read any more, each warp with its own 16.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = across_quad_sum(mine.sum[half]), by = 1.0f / sum;
    const bool none = is_nothing(p, sum);
    const u32 row = warp * 16 + lane / 4 + half * 8;
    u8* const to = dynamic_shared() + queries_at(tile.stage, consumer) + row * 128;
#pragma unroll
    for (int n = 0; n < VALUE_COLUMNS / 8; ++n) {
      const float low = none ? 0.0f : y[n * 4 + half * 2] * by, high = none ? 0.0f : y[n * 4 + half * 2 + 1] * by;
      *reinterpret_cast<u32*>(to + n / 8 * BYTES_ROWS + ((n % 8 ^ row % 8) * 16 + lane % 4 * 4)) =
          two_halves(low, high);
    }
  }
  publish_shared();
  meet_warps(consumer, 128);
  give_tile_back(shared, tile.stage, progress);
  progress.storing = true;
  if (thread != 0) return;
#pragma unroll
  for (int piece = 0; piece < VALUE_PIECES; ++piece)
    store_box(map_y, piece * PIECE, i32(at.head), at.first_row + i32(consumer) * 64, i32(at.batch),
              queries + piece * BYTES_ROWS);
  close_stores();
}

extern "C" __global__ void __launch_bounds__(CONSUMERS * 128 + PRODUCERS, LEAST_BLOCKS)
    attention(ARGUMENTS const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
              const __grid_constant__ TensorMap map_v, const __grid_constant__ TensorMap map_y,
              const __grid_constant__ Parameters p) {
  const u32 shared = shared_address(dynamic_shared());
  launch_dependents();
  if (threadIdx.x == 0) {
    prefetch_map(map_q);
    prefetch_map(map_k);
    prefetch_map(map_v);
    for (u32 tile = 0; tile < TILES; ++tile) {
      barrier_init(queries_full(shared, tile), 1);
      barrier_init(queries_empty(shared, tile), CONSUMERS);
    }
    for (u32 stage = 0; stage < STAGES; ++stage) {
      barrier_init(keys_full(shared, stage), 1);
      barrier_init(values_full(shared, stage), 1);
      barrier_init(keys_empty(shared, stage), 4 * CONSUMERS);  // a lane of each warp that read it
      barrier_init(values_empty(shared, stage), 4 * CONSUMERS);
    }
    for (u32 consumer = 0; consumer < CONSUMERS; ++consumer) barrier_init(turn_of(shared, consumer), 4);
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous_kernel();
  const u32 group = same_for_warp(threadIdx.x / 128);
  RingPlace<TILES> tile;
  u32 block = blockIdx.x;
  if (group == CONSUMERS) {
    if constexpr (CONSUMERS > 1) give_registers<FEW>();
    if (threadIdx.x != CONSUMERS * 128) return;
    RingPlace<STAGES> ring;
    do {
      if constexpr (IN_TURN) wait_for_phase(queries_empty(shared, tile.stage), tile.phase ^ 1);
      load(shared, place_of_block<ROWS, KEYS>(block, p, lengths), tile.stage, ring, map_q, map_k, map_v);
      tile.advance();
    } while (IN_TURN && (block += gridDim.x) < p.blocks);
  } else {
    if constexpr (CONSUMERS > 1) take_registers<MANY>();
    Progress progress{{}, {}, group == 0, false};  // nobody has a turn before the first
    do {
      const Place at = place_of_block<ROWS, KEYS>(block, p, lengths);
      attend(shared, group, at, tile, progress, mask_of(p, at, mask), map_y, p);
      tile.advance();
    } while (IN_TURN && (block += gridDim.x) < p.blocks);
    if (threadIdx.x % 128 == 0) wait_for_stores();
  }
}
#endif
