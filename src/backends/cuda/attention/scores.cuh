// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels of attention: which keys a query sees, masks, and the softmax of one block of keys after the
// other. A lane holds the scores of two rows, lane / 4 and lane / 4 + 8 of the warp's 16, as the matrix units leave
// them: s[n * 4 + half * 2 + i] is that of row `half` and of key n * 8 + lane % 4 * 2 + i of a block of KEYS.
//
// Defined before this text: MATRIX (1: f16, 2: bf16) and its type Half, KEYS, MASK (0: none, 1: added, of type Mask,
// 2: bool), MASK_OF_QUERY (queries have masks of their own), MASK_PAIRS (masks of two neighbouring keys are read at
// once), LENGTHS, EARLY (scores are multiplied by `scale` before masks and softmax), CAPPED, ZERO_NAN.
#pragma once
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  Divisor tiles, heads;  // tiles of queries; heads
  u32 sharing;           // heads of queries that share one of keys
  i32 queries, keys, query_size, value_size;
  i32 left, right;  // how far a query sees; -1: without end
  u32 from_end;     // positions of queries count from the last key
  u32 reversed;     // the last tile first: it sees the most keys
  float scale, cap;
  float unit;  // what scores are multiplied by to be exponents of 2
  i64 q_row, q_batch, k_row, k_batch, v_row, v_batch, y_row, y_batch;  // strides in elements
  i64 mask_batch, mask_head, mask_query, mask_key;
  u32 mask_batches;
  u32 blocks;     // tiles of queries of all heads
  u32 backwards;  // the last tile comes first
};

constexpr int SCORES = KEYS / 2;

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

// Tile number `block`: one of ROWS queries of a head, and the keys that any of them sees, from `first_key` on.
struct Place {
  u32 batch, head, kv_head;
  i32 first_row;
  i32 length;               // of the keys
  Range of_first, of_last;  // keys of the first and of the last query
  i32 first_key, blocks;    // of BLOCK_KEYS
};
template <int ROWS, int BLOCK_KEYS>
DEVICE Place place_of_block(u32 block, const Parameters& p, const i64* lengths) {
  Place at;
  if (p.backwards) block = p.blocks - 1 - block;
  const u32 pair = divide(block, p.tiles);
  u32 tile = block - pair * p.tiles.divisor;
  if (p.reversed) tile = p.tiles.divisor - 1 - tile;
  at.batch = divide(pair, p.heads), at.head = pair - at.batch * p.heads.divisor, at.kv_head = at.head / p.sharing;
  at.first_row = i32(tile) * ROWS;
  at.length = p.keys;
  if constexpr (LENGTHS) at.length = i32(lengths[at.batch] < p.keys ? lengths[at.batch] : p.keys);
  at.of_first = keys_of(p, at.first_row, at.length);
  at.of_last = keys_of(p, (at.first_row + ROWS < p.queries ? at.first_row + ROWS : p.queries) - 1, at.length);
  at.first_key = at.of_first.first / BLOCK_KEYS * BLOCK_KEYS;
  at.blocks = at.of_last.end > at.first_key ? (at.of_last.end - at.first_key + BLOCK_KEYS - 1) / BLOCK_KEYS : 0;
  return at;
}

DEVICE const Mask* mask_of(const Parameters& p, const Place& at, const Mask* mask) {
  return MASK ? mask + i64(at.batch % p.mask_batches) * p.mask_batch + i64(at.head) * p.mask_head : nullptr;
}

DEVICE float across_quad_max(float x) {
  for (int far = 1; far <= 2; far *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, far));
  return x;
}
DEVICE float across_quad_sum(float x) {
  for (int far = 1; far <= 2; far *= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
  return x;
}
DEVICE float nothing() { return __int_as_float(0xff800000); }  // -inf: the key does not take part

// A score's exponent of 2 is score * unit - from, which is 0 for `most`, the largest. Where `unit` makes that number so
// large that its rounding alone would be an exponent of some size, as of masks of -1e30, a power of two that rounds
// nothing takes its place: such scores, where they differ at all, differ by so much that all but the largest weigh
// nothing.
struct Exponents {
  float unit, from;
};
DEVICE Exponents exponents_of(float most, float unit) {
  constexpr float kRounded = 0x1p28f;  // the exponent is off by 8 at most
  if (most == nothing()) most = 0;
  const float from = most * unit, power = __uint_as_float(__float_as_uint(unit) & 0xff800000);
  return fabsf(from) < kRounded ? Exponents{unit, from} : Exponents{power, most * power};
}
DEVICE float weight_of(float score, const Exponents& e) { return exp2_flushed(fmaf(score, e.unit, -e.from)); }

DEVICE float with_mask(float score, bool mask, const Parameters&) { return mask ? score : nothing(); }
DEVICE float with_mask(float score, float mask, const Parameters& p) {
  return EARLY && !CAPPED ? fmaf(score, p.scale, mask) : score + mask;
}
template <class T>
struct alignas(2 * sizeof(T)) Pair {
  T at[2];
};

// What the lane's two rows see of the keys.
struct Rows {
  i32 row;  // the first; the other is 8 below
  Range range[2];
};

// Masks that all queries share are read before the scores are there, those of two keys at a time.
constexpr bool AHEAD = MASK != 0 && !MASK_OF_QUERY;
struct Masks {
  Pair<Mask> of_keys[AHEAD ? KEYS / 8 : 1];
};
DEVICE Pair<Mask> read_pair(const Parameters& p, const Mask* mask, i32 key) {
  Pair<Mask> pair{};
  if constexpr (MASK_PAIRS) {
    if (key < p.keys) pair = *reinterpret_cast<const Pair<Mask>*>(mask + key);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (key + i < p.keys) pair.at[i] = mask[i64(key + i) * p.mask_key];
  }
  return pair;
}
// `mask`: of the batch and the head; `key`: the block's first.
DEVICE void read_ahead(Masks& masks, const Parameters& p, const Mask* mask, i32 key) {
  if constexpr (AHEAD) {
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) masks.of_keys[n] = read_pair(p, mask, key + n * 8 + i32(threadIdx.x % 4) * 2);
  }
}

// Scale, softcap and mask, and -inf for keys that the query does not see. `partly`: not all queries of the block see
// all of its keys.
DEVICE void limit_scores(float (&s)[SCORES], const Parameters& p, const Mask* mask, const Masks& masks,
                         const Rows& mine, i32 key, bool partly) {
  const i32 column = key + i32(threadIdx.x % 4) * 2;
  if constexpr (EARLY && (CAPPED || MASK != 1)) {
#pragma unroll
    for (int i = 0; i < SCORES; ++i) {
      s[i] *= p.scale;
      if constexpr (CAPPED) s[i] = p.cap * ::tanhf(s[i]);
    }
  }
  if constexpr (MASK != 0) {
    const Mask* of_row[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i32 row = mine.row + half * 8;  // beyond the last query any mask will do
      of_row[half] = mask + i64(row < p.queries ? row : p.queries - 1) * p.mask_query;
    }
#pragma unroll
    for (int i = 0; i < SCORES; i += 2) {
      const Pair<Mask> pair = AHEAD ? masks.of_keys[i / 4] : read_pair(p, of_row[i / 2 % 2], column + i / 4 * 8);
#pragma unroll
      for (int j = 0; j < 2; ++j) s[i + j] = with_mask(s[i + j], hold(pair.at[j]), p);
    }
  }
  if (!partly) return;
#pragma unroll
  for (int i = 0; i < SCORES; ++i) {
    const i32 at = column + i / 4 * 8 + i % 2;
    const Range& range = mine.range[i / 2 % 2];
    if (at < range.first || at >= range.end) s[i] = nothing();
  }
}

// The running softmax (Milakov and Gimelshein 2018): with p = exp(s - m), y = sum(p v) / sum(p). A larger maximum m
// rescales what was summed before it was found.
struct Sums {
  float most[2] = {nothing(), nothing()}, sum[2] = {0, 0};
};
// Scores become weights; what the rows summed so far is to be multiplied by `before`.
DEVICE void weigh(float (&s)[SCORES], Sums& mine, float (&before)[2], float unit) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = mine.most[half];
#pragma unroll
    for (int i = 0; i < SCORES; i += 4) most = fmaxf(fmaxf(most, s[i + half * 2]), s[i + half * 2 + 1]);
    most = across_quad_max(most);
    const Exponents exponents = exponents_of(most, unit);
    before[half] = weight_of(mine.most[half], exponents);
    mine.most[half] = most;
    mine.sum[half] *= before[half];
#pragma unroll
    for (int i = 0; i < SCORES; ++i) {
      if (i / 2 % 2 != half) continue;
      s[i] = weight_of(s[i], exponents);
      mine.sum[half] += s[i];
    }
  }
}
// The weights of 16 keys as rows of the second product: the sums of two blocks of eight keys are so as they lie.
DEVICE void pack_weights(u32 (&rows)[4], const float (&s)[SCORES], int step) {
#pragma unroll
  for (int i = 0; i < 4; ++i) rows[i] = two_halves(s[step * 8 + i * 2], s[step * 8 + i * 2 + 1]);
}
// A row without keys, which shall be zeros.
DEVICE bool is_nothing(const Parameters& p, float sum) { return p.keys == 0 || (ZERO_NAN && !(sum > 0)); }
