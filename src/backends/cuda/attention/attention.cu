// SPDX-License-Identifier: Apache-2.0
// Attention on the tensor cores by mma.sync, in one pass over the keys: a warp has 16 queries, and scores live in its
// registers alone (FlashAttention-2, Dao 2023). Keys and values come in blocks of KEYS rows a warp, by cp.async, into
// two stages of shared memory: one is copied while the other is multiplied. The running maximum m of a row rescales
// what was summed before it was found: with p = exp(s - m), y = sum(p v) / sum(p).
//
// A block has ROW_WARPS * 16 queries of one head. Where these are few, KEY_WARPS warps share 16 queries: each has every
// KEY_WARPS-th block of keys, and the sums are joined at the end. Blocks of keys that no query of the tile may see
// are never loaded; the rows and columns beyond the tensors' ends are zeros.
//
// Defined before this text: MATRIX (1: f16, 2: bf16) and its type Half, ROW_WARPS, KEY_WARPS, KEYS, QUERY_SIZE and
// VALUE_SIZE (the sizes of a head, rounded up to 16), MASK (0: none, 1: added, of type Mask, 2: bool), LENGTHS, CAPPED,
// ZERO_NAN, and ARGUMENTS: q, k, v, the mask and the lengths where there are some, y.
#include "backends/cuda/support/memory.cuh"

using Sum = float;
#include "backends/cuda/support/mma.cuh"

struct Parameters {
  Divisor tiles, heads;  // tiles of queries; heads
  u32 sharing;           // heads of queries that share one of keys
  i32 queries, keys, query_size, value_size;
  i32 left, right;  // how far a query sees; -1: without end
  u32 from_end;     // positions of queries count from the last key
  u32 reversed;     // the last tile first: it sees the most keys
  float scale, cap;
  i64 q_row, q_batch, k_row, k_batch, v_row, v_batch, y_row, y_batch;  // strides in elements
  i64 mask_batch, mask_head, mask_query, mask_key;
  u32 mask_batches;
};

constexpr int ROWS = ROW_WARPS * 16, WARPS = ROW_WARPS * KEY_WARPS, THREADS = WARPS * 32;
constexpr int BLOCK_KEYS = KEYS * KEY_WARPS;  // of a stage
// Rows of shared memory are an odd number of 16-byte chunks apart: eight of them have a chunk in different banks.
constexpr int QUERY_PITCH = QUERY_SIZE * 2 + 16, VALUE_PITCH = VALUE_SIZE * 2 + 16;
constexpr int ROW_PITCH = QUERY_PITCH > VALUE_PITCH ? QUERY_PITCH : VALUE_PITCH;  // queries, and later results
constexpr int STAGE = BLOCK_KEYS * (QUERY_PITCH + VALUE_PITCH);
constexpr int SCORES = KEYS / 8, RESULTS = VALUE_SIZE / 8, STEPS = QUERY_SIZE / 16;
constexpr bool KEEP_QUERIES = QUERY_SIZE <= 128;  // in registers
// Scores are in units of ln 2, so that exp2 needs no factor; what a mask adds must not overflow by it.
constexpr float UNIT = MASK == 1 ? 1.44269504f : 1.0f;

DEVICE u32 two_halves(float low, float high) {
#if MATRIX == 1
  return f16x2_bits(low, high);
#else
  return bf16x2_bits(low, high);
#endif
}

struct Range {
  i32 first, end;
};
DEVICE Range keys_of(const Parameters& p, i32 query, i32 length) {
  const i32 position = p.from_end ? query + length - p.queries : query;
  Range range{0, length < p.keys ? length : p.keys};
  if (p.left >= 0 && position - p.left > 0) range.first = position - p.left;
  if (p.right >= 0 && position + p.right + 1 < range.end) range.end = position + p.right + 1;
  return range;
}

// `rows` rows of `size` elements from row `first` on, zeros beyond `end` and beyond `size`.
template <int PITCH, int PADDED>
DEVICE void copy_rows(u32 to, const Half* from, i64 row, i32 first, i32 end, i32 rows, i32 size) {
  constexpr int CHUNKS = PADDED / 8;
  for (i32 i = i32(threadIdx.x); i < rows * CHUNKS; i += THREADS) {
    const i32 r = i / CHUNKS, c = i % CHUNKS;
    const bool inside = first + r < end && c * 8 < size;
    copy_chunk(to + u32(r * PITCH + c * 16), inside ? from + i64(first + r) * row + c * 8 : from, inside);
  }
}

struct Rows {
  float most[2], sum[2];  // of rows lane / 4 and lane / 4 + 8
  float y[RESULTS][4];
};

DEVICE float across_quad_max(float x) {
  for (int far = 1; far <= 2; far *= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, far);
    x = other > x ? other : x;
  }
  return x;
}
DEVICE float across_quad_sum(float x) {
  for (int far = 1; far <= 2; far *= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
  return x;
}
DEVICE float nothing() { return __int_as_float(0xff800000); }  // -inf: the key does not take part
DEVICE float with_mask(float score, bool mask) { return mask ? score : nothing(); }
DEVICE float with_mask(float score, float mask) { return score + mask; }
DEVICE float finite_or_zero(float most) { return most == nothing() ? 0.0f : most; }

extern "C" __global__ void __launch_bounds__(THREADS) attention(ARGUMENTS, const Parameters p) {
  u8* const shared = dynamic_shared();
  const u32 q_at = shared_address(shared), stages = q_at + ROWS * ROW_PITCH;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_warp = warp % ROW_WARPS, key_warp = warp / ROW_WARPS;
  const u32 pair = divide(blockIdx.x, p.tiles);
  u32 tile = blockIdx.x - pair * p.tiles.divisor;
  if (p.reversed) tile = p.tiles.divisor - 1 - tile;
  const u32 b = divide(pair, p.heads), head = pair - b * p.heads.divisor, kv_head = head / p.sharing;
  const i32 first_row = i32(tile) * ROWS, last_row = (first_row + ROWS < p.queries ? first_row + ROWS : p.queries) - 1;
  q += i64(b) * p.q_batch + i64(head) * p.query_size;
  k += i64(b) * p.k_batch + i64(kv_head) * p.query_size;
  v += i64(b) * p.v_batch + i64(kv_head) * p.value_size;
  y += i64(b) * p.y_batch + i64(head) * p.value_size;
  wait_for_inputs();

  i32 length = p.keys;
  if constexpr (LENGTHS) length = i32(lengths[b] < p.keys ? lengths[b] : p.keys);
  const Range of_first = keys_of(p, first_row, length), of_last = keys_of(p, last_row, length);
  const i32 first_key = of_first.first / BLOCK_KEYS * BLOCK_KEYS, end_key = of_last.end;
  const i32 blocks = end_key > first_key ? (end_key - first_key + BLOCK_KEYS - 1) / BLOCK_KEYS : 0;
  auto copy_block = [&](i32 block) {
    const u32 to = stages + u32(block % 2) * STAGE;
    const i32 key = first_key + block * BLOCK_KEYS;
    copy_rows<QUERY_PITCH, QUERY_SIZE>(to, k, p.k_row, key, p.keys, BLOCK_KEYS, p.query_size);
    copy_rows<VALUE_PITCH, VALUE_SIZE>(to + BLOCK_KEYS * QUERY_PITCH, v, p.v_row, key, p.keys, BLOCK_KEYS,
                                       p.value_size);
  };
  copy_rows<ROW_PITCH, QUERY_SIZE>(q_at, q, p.q_row, first_row, p.queries, ROWS, p.query_size);
  if (blocks > 0) copy_block(0);
  close_group();

  // Of its two rows a lane has columns lane % 4 * 2 and the next of every eight.
  const i32 row = first_row + i32(row_warp) * 16 + i32(lane) / 4, column = i32(lane) % 4 * 2;
  const u32 q_row_at = q_at + (row_warp * 16 + lane % 16) * ROW_PITCH + lane / 16 * 16;
  u32 queries[KEEP_QUERIES ? STEPS : 1][4];
  Range range[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) range[half] = keys_of(p, row + half * 8, length);
  const i32 masked_batch = MASK ? i32(b % p.mask_batches) : 0;

  Rows mine;
#pragma unroll
  for (int half = 0; half < 2; ++half) mine.most[half] = nothing(), mine.sum[half] = 0;
#pragma unroll
  for (int n = 0; n < RESULTS; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) mine.y[n][i] = 0;

#pragma unroll 1
  for (i32 block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) copy_block(block + 1);
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
    const i32 key = first_key + block * BLOCK_KEYS + i32(key_warp) * KEYS;

    float s[SCORES][4];
#pragma unroll
    for (int n = 0; n < SCORES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      if constexpr (!KEEP_QUERIES) load_matrices(queries[0], q_row_at + step * 32);
#pragma unroll
      for (int n = 0; n < SCORES; n += 2) {
        u32 keys[4];
        load_matrices(keys, k_at + n * 8 * QUERY_PITCH + step * 32);
        multiply(s[n], queries[KEEP_QUERIES ? step : 0], keys[0], keys[1]);
        multiply(s[n + 1], queries[KEEP_QUERIES ? step : 0], keys[2], keys[3]);
      }
    }

#pragma unroll
    for (int n = 0; n < SCORES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] *= p.scale;
        if constexpr (CAPPED) s[n][i] = p.cap * ::tanhf(s[n][i]);
      }
    if constexpr (MASK != 0) {
      const Mask* from = mask + i64(masked_batch) * p.mask_batch + i64(head) * p.mask_head;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (row + half * 8 >= p.queries) continue;
        const Mask* of_row = from + i64(row + half * 8) * p.mask_query + i64(key + column) * p.mask_key;
#pragma unroll
        for (int n = 0; n < SCORES; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (key + n * 8 + column + i >= p.keys) continue;
            float& to = s[n][half * 2 + i];
            to = with_mask(to, hold(of_row[i64(n * 8 + i) * p.mask_key]));
          }
      }
    }
    if (key < of_last.first || key + KEYS > of_first.end) {  // not all queries see all of them
#pragma unroll
      for (int n = 0; n < SCORES; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const i32 at = key + n * 8 + column + i % 2;
          if (at < range[i / 2].first || at >= range[i / 2].end) s[n][i] = nothing();
        }
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = mine.most[half];
#pragma unroll
      for (int n = 0; n < SCORES; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) most = s[n][half * 2 + i] > most ? s[n][half * 2 + i] : most;
      most = across_quad_max(most);
      const float from = finite_or_zero(most), before = exp2_fast((mine.most[half] - from) * UNIT);
      mine.most[half] = most;
      mine.sum[half] *= before;
#pragma unroll
      for (int n = 0; n < RESULTS; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) mine.y[n][half * 2 + i] *= before;
#pragma unroll
      for (int n = 0; n < SCORES; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& of_key = s[n][half * 2 + i];
          of_key = exp2_fast((of_key - from) * UNIT);
          mine.sum[half] += of_key;
        }
    }

    // The sums of two blocks of eight keys are rows of the second product as they lie.
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step) {
      const u32 rows[4] = {two_halves(s[step * 2][0], s[step * 2][1]), two_halves(s[step * 2][2], s[step * 2][3]),
                           two_halves(s[step * 2 + 1][0], s[step * 2 + 1][1]),
                           two_halves(s[step * 2 + 1][2], s[step * 2 + 1][3])};
#pragma unroll
      for (int n = 0; n < RESULTS; n += 2) {
        u32 values[4];
        load_matrices_transposed(values, v_at + step * 16 * VALUE_PITCH + n * 16);
        multiply(mine.y[n], rows, values[0], values[1]);
        multiply(mine.y[n + 1], rows, values[2], values[3]);
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
        for (int i = 0; i < 4; ++i) to[(4 + n * 4 + i) * 32] = mine.y[n][i];
    }
    __syncthreads();
    if (key_warp > 0) return;
#pragma unroll 1
    for (int other = 0; other < KEY_WARPS - 1; ++other) {
      const float* its = others + (other * ROW_WARPS + row_warp) * (EACH * 32) + lane;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float its_most = its[half * 32], most = its_most > mine.most[half] ? its_most : mine.most[half];
        const float from = finite_or_zero(most), by = exp2_fast((mine.most[half] - from) * UNIT),
                    its_by = exp2_fast((its_most - from) * UNIT);
        mine.most[half] = most;
        mine.sum[half] = mine.sum[half] * by + its[(half + 2) * 32] * its_by;
#pragma unroll
        for (int n = 0; n < RESULTS; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& to = mine.y[n][half * 2 + i];
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
    const bool none = p.keys == 0 || (ZERO_NAN && !(mine.sum[half] > 0));
    const float by = 1.0f / mine.sum[half];
#pragma unroll
    for (int n = 0; n < RESULTS; ++n) {
      const float low = none ? 0.0f : mine.y[n][half * 2] * by, high = none ? 0.0f : mine.y[n][half * 2 + 1] * by;
      *reinterpret_cast<u32*>(rows_at + (lane / 4 + half * 8) * ROW_PITCH + n * 16 + lane % 4 * 4) =
          two_halves(low, high);
    }
  }
  __syncwarp();
  constexpr int CHUNKS = VALUE_SIZE / 8;
#pragma unroll
  for (i32 i = i32(lane); i < 16 * CHUNKS; i += 32) {
    const i32 r = i / CHUNKS, c = i % CHUNKS, to = first_row + i32(row_warp) * 16 + r;
    if (to < p.queries && c * 8 < p.value_size)
      store_vector(y + i64(to) * p.y_row + c * 8,
                   *reinterpret_cast<const Vec<Half, 8>*>(rows_at + r * ROW_PITCH + c * 16));
  }
}
