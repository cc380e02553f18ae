// SPDX-License-Identifier: Apache-2.0
// Attention on the tensor cores by mma.sync, in one pass over the keys: a warp has 16 queries, and scores live in its
// registers alone (FlashAttention-2, Dao 2023). Keys and values come in blocks of KEYS rows a warp, by cp.async, into
// two stages of shared memory: one is copied while the other is multiplied.
//
// A block has ROW_WARPS * 16 queries of one head. Where these are few, KEY_WARPS warps share 16 queries: each has every
// KEY_WARPS-th block of keys, and the sums are joined at the end. Blocks of keys that no query of the tile may see
// are never loaded; the rows and columns beyond the tensors' ends are zeros.
//
// Defined before this text: what scores.cuh wants, ROW_WARPS, KEY_WARPS, QUERY_SIZE and VALUE_SIZE (the sizes of a
// head, rounded up to 16), and ARGUMENTS: q, k, v, the mask and the lengths where there are some, y.
using Sum = float;
#include "backends/cuda/attention/scores.cuh"
#include "backends/cuda/support/mma.cuh"

constexpr int ROWS = ROW_WARPS * 16, WARPS = ROW_WARPS * KEY_WARPS, THREADS = WARPS * 32;
constexpr int BLOCK_KEYS = KEYS * KEY_WARPS;  // of a stage
// Rows of shared memory are an odd number of 16-byte chunks apart: eight of them have a chunk in different banks.
constexpr int QUERY_PITCH = QUERY_SIZE * 2 + 16, VALUE_PITCH = VALUE_SIZE * 2 + 16;
constexpr int ROW_PITCH = QUERY_PITCH > VALUE_PITCH ? QUERY_PITCH : VALUE_PITCH;  // queries, and later results
constexpr int STAGE = BLOCK_KEYS * (QUERY_PITCH + VALUE_PITCH);
constexpr int RESULTS = VALUE_SIZE / 8, STEPS = QUERY_SIZE / 16;
#if __CUDA_ARCH__ >= 800
constexpr bool KEEP_QUERIES = QUERY_SIZE <= 128;  // in registers
#else
constexpr bool KEEP_QUERIES = false;  // what is copied takes registers on its way to shared memory
#endif
DEVICE float (&four_of(float (&s)[SCORES], int n))[4] { return *reinterpret_cast<float (*)[4]>(&s[n * 4]); }

// `rows` rows of `size` elements from row `first` on, zeros beyond `end` and beyond `size`.
template <int PITCH, int PADDED>
DEVICE void copy_rows(u32 to, const Half* from, i64 row, i32 first, i32 end, i32 rows, i32 size) {
  constexpr int CHUNKS = PADDED / 8;
#if __CUDA_ARCH__ < 800
#pragma unroll 1
#endif
  for (i32 i = i32(threadIdx.x); i < rows * CHUNKS; i += THREADS) {
    const i32 r = i / CHUNKS, c = i % CHUNKS;
    const bool inside = first + r < end && c * 8 < size;
    copy_chunk(to + u32(r * PITCH + c * 16), inside ? from + i64(first + r) * row + c * 8 : from, inside);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(ARGUMENTS, const Parameters p) {
  u8* const shared = dynamic_shared();
  const u32 q_at = shared_address(shared), stages = q_at + ROWS * ROW_PITCH;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_warp = warp % ROW_WARPS, key_warp = warp / ROW_WARPS;
  wait_for_inputs();

  const Place at = place_of_block<ROWS, BLOCK_KEYS>(blockIdx.x, p, lengths);
  q += i64(at.batch) * p.q_batch + i64(at.head) * p.query_size;
  k += i64(at.batch) * p.k_batch + i64(at.kv_head) * p.query_size;
  v += i64(at.batch) * p.v_batch + i64(at.kv_head) * p.value_size;
  y += i64(at.batch) * p.y_batch + i64(at.head) * p.value_size;
  const Mask* const of_head = mask_of(p, at, mask);
  auto copy_block = [&](i32 block) {
    const u32 to = stages + u32(block % 2) * STAGE;
    const i32 key = at.first_key + block * BLOCK_KEYS;
    copy_rows<QUERY_PITCH, QUERY_SIZE>(to, k, p.k_row, key, p.keys, BLOCK_KEYS, p.query_size);
    copy_rows<VALUE_PITCH, VALUE_SIZE>(to + BLOCK_KEYS * QUERY_PITCH, v, p.v_row, key, p.keys, BLOCK_KEYS,
                                       p.value_size);
  };
  // A tile that sees no key copies nothing: its warps meet nowhere before the results take the place of the queries.
  if (at.blocks > 0) {
    copy_rows<ROW_PITCH, QUERY_SIZE>(q_at, q, p.q_row, at.first_row, p.queries, ROWS, p.query_size);
    copy_block(0);
  }
  close_group();

  const u32 q_row_at = q_at + (row_warp * 16 + lane % 16) * ROW_PITCH + lane / 16 * 16;
  u32 queries[KEEP_QUERIES ? STEPS : 1][4];
  Rows rows{at.first_row + i32(row_warp) * 16 + i32(lane) / 4};
#pragma unroll
  for (int half = 0; half < 2; ++half) rows.range[half] = keys_of(p, rows.row + half * 8, at.length);

  Sums mine;
  float y_sums[RESULTS][4];
#pragma unroll
  for (int n = 0; n < RESULTS; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) y_sums[n][i] = 0;

#pragma unroll 1
  for (i32 block = 0; block < at.blocks; ++block) {
    if (block + 1 < at.blocks) copy_block(block + 1);
    close_group();
    wait_for_groups<1>();
    __syncthreads();
    if constexpr (KEEP_QUERIES) {
      if (block == 0) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) load_matrices(queries[step], q_row_at + step * 32);
      }
    }
    const u32 stage = stages + u32(block % 2) * STAGE;
    const u32 k_at = stage + (key_warp * KEYS + lane % 8 + lane / 16 * 8) * QUERY_PITCH + lane / 8 % 2 * 16;
    const u32 v_at = stage + BLOCK_KEYS * QUERY_PITCH + (key_warp * KEYS + lane % 16) * VALUE_PITCH + lane / 16 * 16;
    const i32 key = at.first_key + block * BLOCK_KEYS + i32(key_warp) * KEYS;

    Masks masks;
    read_ahead(masks, p, of_head, key);
    float s[SCORES];
#pragma unroll
    for (int i = 0; i < SCORES; ++i) s[i] = 0;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      if constexpr (!KEEP_QUERIES) load_matrices(queries[0], q_row_at + step * 32);
#pragma unroll
      for (int n = 0; n < KEYS / 8; n += 2) {
        u32 keys[4];
        load_matrices(keys, k_at + n * 8 * QUERY_PITCH + step * 32);
        multiply(four_of(s, n), queries[KEEP_QUERIES ? step : 0], keys[0], keys[1]);
        multiply(four_of(s, n + 1), queries[KEEP_QUERIES ? step : 0], keys[2], keys[3]);
      }
    }

    limit_scores(s, p, of_head, masks, rows, key, key < at.of_last.first || key + KEYS > at.of_first.end);
    float before[2];
    weigh(s, mine, before, p.unit);
#pragma unroll
    for (int n = 0; n < RESULTS; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) y_sums[n][i] *= before[i / 2];
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step) {
      u32 weights[4];
      pack_weights(weights, s, step);
#pragma unroll
      for (int n = 0; n < RESULTS; n += 2) {
        u32 values[4];
        load_matrices_transposed(values, v_at + step * 16 * VALUE_PITCH + n * 16);
        multiply(y_sums[n], weights, values[0], values[1]);
        multiply(y_sums[n + 1], weights, values[2], values[3]);
      }
    }
    __syncthreads();  // the stage may be overwritten
  }
  wait_for_groups<0>();
#pragma unroll
  for (int half = 0; half < 2; ++half) mine.sum[half] = across_quad_sum(mine.sum[half]);

  if constexpr (KEY_WARPS > 1) {
    // Lane by lane: all warps of a row have its columns in the same lanes.
    constexpr int EACH = RESULTS * 4 + 4;
    float* const others = reinterpret_cast<float*>(shared + ROWS * ROW_PITCH);
    __syncthreads();
    if (key_warp > 0) {
      float* to = others + ((key_warp - 1) * ROW_WARPS + row_warp) * (EACH * 32) + lane;
#pragma unroll
      for (int half = 0; half < 2; ++half) to[half * 32] = mine.most[half], to[(half + 2) * 32] = mine.sum[half];
#pragma unroll
      for (int n = 0; n < RESULTS; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) to[(4 + n * 4 + i) * 32] = y_sums[n][i];
    }
    __syncthreads();
    if (key_warp > 0) return;
#pragma unroll 1
    for (int other = 0; other < KEY_WARPS - 1; ++other) {
      const float* its = others + (other * ROW_WARPS + row_warp) * (EACH * 32) + lane;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float its_most = its[half * 32], most = fmaxf(its_most, mine.most[half]);
        const Exponents exponents = exponents_of(most, p.unit);
        const float by = weight_of(mine.most[half], exponents), its_by = weight_of(its_most, exponents);
        mine.most[half] = most;
        mine.sum[half] = mine.sum[half] * by + its[(half + 2) * 32] * its_by;
#pragma unroll
        for (int n = 0; n < RESULTS; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& to = y_sums[n][half * 2 + i];
            to = to * by + its[(4 + n * 4 + half * 2 + i) * 32] * its_by;
          }
      }
    }
  }

  // Through the rows of the queries, which are this warp's own, to whole chunks.
  u8* const rows_at = shared + row_warp * 16 * ROW_PITCH;
  __syncwarp();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool none = is_nothing(p, mine.sum[half]);
    const float by = 1.0f / mine.sum[half];
#pragma unroll
    for (int n = 0; n < RESULTS; ++n) {
      const float low = none ? 0.0f : y_sums[n][half * 2] * by, high = none ? 0.0f : y_sums[n][half * 2 + 1] * by;
      *reinterpret_cast<u32*>(rows_at + (lane / 4 + half * 8) * ROW_PITCH + n * 16 + lane % 4 * 4) =
          two_halves(low, high);
    }
  }
  __syncwarp();
  constexpr int CHUNKS = VALUE_SIZE / 8;
#pragma unroll
  for (i32 i = i32(lane); i < 16 * CHUNKS; i += 32) {
    const i32 r = i / CHUNKS, c = i % CHUNKS, to = at.first_row + i32(row_warp) * 16 + r;
    if (to < p.queries && c * 8 < p.value_size)
      store_vector(y + i64(to) * p.y_row + c * 8,
                   *reinterpret_cast<const Vec<Half, 8>*>(rows_at + r * ROW_PITCH + c * 16));
  }
}
