// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, which are read once: a warp has COLUMNS columns of the result, whose
// weights lie one behind the other, and its lanes share their depth, 16 bytes at a time. SPLIT warps of a block share
// columns. As many weights as registers hold are on their way before the previous kernel has ended, with whatever else
// is constant. With NORMALIZED, every block normalises the rows first, in shared memory: they are short, and a launch
// would take longer. Weights of 8 and 4 bits (IN_BLOCKS) become floats in registers, and what a chunk of them gives is
// multiplied by its block's scale; where few enough are in registers, they become floats before the previous kernel
// ends.
//
// Defined before this text: A (of the rows and the weights, f16 or bf16), Output, ROWS, DEPTH (a multiple of 8),
// COLUMNS, SPLIT, BITS (of a weight), BLOCKS_EXTRAS (parameters), WARPS (of a block), OPERANDS (the output and the
// epilogue's inputs), EXTRAS (their parameters), struct Extras (a result's inputs of the epilogue), LOAD_CONSTANT and
// LOAD_GIVEN(to, row, column), which fill it in, and EPILOGUE(sum, extras). For NORMALIZED: CENTER, BETWEEN_EXTRAS
// (parameters), struct Fixed (what eight elements of any row have in common), LOAD_FIXED(to, k) and BETWEEN(value,
// fixed, j), which gives a value of A. For IN_BLOCKS: Integer (i8 or u8; of 4 bits with 8 added where it is signed, an
// element of a chunk in the next higher bits each), BLOCK (its length along the depth: a multiple of 8, or the depth),
// BLOCKS (of a column), ZEROS (whether blocks have zero points), scales[column][block] and ZERO_AT(i).
#include "backends/cuda/rows/row_sums.cuh"

struct Parameters {
  u32 columns;
  float inverse, epsilon;  // of a normalisation: 1 / DEPTH
  i64 a_row;               // elements from row to row
  i64 row_stride[OPERANDS], column_stride[OPERANDS];
  NUMBERS
};

constexpr int CHUNK = 8, STEP = 32 * CHUNK, STEPS = (DEPTH + STEP - 1) / STEP, MINE = (STEPS + SPLIT - 1) / SPLIT;
constexpr int HELD = ROWS > 4 ? 8 : BITS == 4 ? 32 : 16;  // chunks of weights
constexpr int AHEAD = MINE * COLUMNS <= HELD ? MINE : HELD / COLUMNS, GROUPS = WARPS / SPLIT;
constexpr bool WHOLE = DEPTH % (STEP * SPLIT) == 0 && MINE % AHEAD == 0;  // every load is inside of the depth
constexpr int RESULTS = ROWS * COLUMNS;                                   // of a warp, one for each of its first lanes
static_assert(RESULTS <= 32 && HELD % COLUMNS == 0, "lanes and registers");

DEVICE float across_warp(float sum) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
  return sum;
}

#if IN_BLOCKS
constexpr int WORDS = BITS * CHUNK / 32;
constexpr bool SCALED_LAST = BLOCKS == 1 && !ZEROS;  // a column's sum, by its only scale
using Weights = Vec<u32, WORDS>;
using Stored = u32;
// Weights that registers hold as floats, all of them, become such while the previous kernel runs.
constexpr bool UNPACKED = MINE == AHEAD && AHEAD * COLUMNS <= 8;

// The integers of a chunk as floats. Those of 4 bits are put into the mantissa of 2^23 at the place where they are,
// and come down to 2^0 by a product that is exact.
struct Chunk {
  float at[CHUNK];
};
DEVICE Chunk floats_of(const Weights& weights, u32 pattern) {
  Chunk out;
#pragma unroll
  for (int j = 0; j < CHUNK; ++j) {
    if constexpr (BITS == 8) {
      out.at[j] = byte_as_float<Integer>(weights, j, pattern);
    } else {
      constexpr float BACK[4] = {1.0f, 1.0f / 16, 1.0f / 256, 1.0f / 4096};
      const u32 word = j < 4 ? weights.at[0] : weights.at[0] >> 16;
      out.at[j] = fmaf(__uint_as_float((word & (15u << (4 * (j % 4)))) | pattern), BACK[j % 4],
                       -8388608.0f * BACK[j % 4] - (is_signed<Integer> ? 8.0f : 0.0f));
    }
  }
  return out;
}
#else
using Weights = Vec<A, CHUNK>;
using Stored = A;
#endif

#if NORMALIZED
// Of a row that all threads share where it is the only one, else a warp for each.
constexpr int SHARING = ROWS == 1 ? WARPS * 32 : 32, CHUNKS = DEPTH / CHUNK, ITEMS = (CHUNKS + SHARING - 1) / SHARING;
constexpr bool KEPT = ITEMS <= 8, FIXED_HELD = ITEMS <= 2;
struct Row {
  u32 chunk;  // this thread's first
  Fixed fixed[FIXED_HELD ? ITEMS : 1];
};

// f(i, chunk) for this thread's chunks of a row.
template <class F>
DEVICE void each_chunk(const Row& row, F&& f) {
#pragma unroll(KEPT ? ITEMS : 2)
  for (int i = 0; i < ITEMS; ++i) {
    const u32 chunk = u32(i) * SHARING + row.chunk;
    if (CHUNKS % SHARING == 0 || chunk < u32(CHUNKS)) f(i, chunk);
  }
}

// Of a row's elements less one of them, so that mean and variance take one exchange between threads: the variance is at
// least (that one - mean)^2 / DEPTH, of which their difference loses some 2^-24.
struct Moments {
  float sum, square;
  DEVICE_MEMBER void add(const Moments& other) { sum += other.sum, square += other.square; }
};

// Sums of 16 bits are sums of f32 (see normalize.cu). load_fixed(to, chunk) where registers do not hold it.
template <class F>
DEVICE void normalize(const Row& row, const A* from, A* to, const Parameters& p, F&& load_fixed) {
  Vec<A, CHUNK> kept[KEPT ? ITEMS : 1];
  if constexpr (KEPT) each_chunk(row, [&](int i, u32 chunk) { kept[i] = load_vector<CHUNK>(from + chunk * CHUNK); });
  auto each = [&](auto&& f) {
    each_chunk(row, [&](int i, u32 chunk) {
      const Vec<A, CHUNK> x = KEPT ? kept[KEPT ? i : 0] : load_vector<CHUNK>(from + chunk * CHUNK);
#pragma unroll
      for (int j = 0; j < CHUNK; ++j) f(hold(x.at[j]), i, chunk, j);
    });
  };
  const float pivot = CENTER ? hold(from[0]) : 0.0f;
  float sums[4] = {}, squares[4] = {};
  each([&](float x, int, u32, int j) {
    if constexpr (CENTER) sums[j % 4] += x - pivot;
    squares[j % 4] = fmaf(x - pivot, x - pivot, squares[j % 4]);
  });
  const Moments all = sum_across<SHARING, 0>(
      Moments{(sums[0] + sums[1]) + (sums[2] + sums[3]), (squares[0] + squares[1]) + (squares[2] + squares[3])});
  const float off = all.sum * p.inverse, mean = pivot + off;
  const float factor = reciprocal_root_fast(fmaf(all.square, p.inverse, p.epsilon - off * off));
  each_chunk(row, [&](int i, u32 chunk) {
    const Vec<A, CHUNK> x = KEPT ? kept[KEPT ? i : 0] : load_vector<CHUNK>(from + chunk * CHUNK);
    Fixed fixed;
    if constexpr (FIXED_HELD) fixed = row.fixed[FIXED_HELD ? i : 0];
    else load_fixed(fixed, chunk);
    Vec<A, CHUNK> y;
#pragma unroll
    for (int j = 0; j < CHUNK; ++j) y.at[j] = store_as<A>(BETWEEN((hold(x.at[j]) - mean) * factor, fixed, j));
    store_vector(to + chunk * CHUNK, y);
  });
}
#endif

#if NORMALIZED
#define ROW_AT(r, k) normalized[r][(k) / CHUNK]
#else
#define ROW_AT(r, k) load_vector<CHUNK>(a + i64(r) * p.a_row + (k))
#endif

// Of several rows, the compiler would rather spill than have fewer blocks beside each other, if it were not told.
extern "C" __global__ void __launch_bounds__(WARPS * 32, ROWS > 2 ? 2 : 0)
    matmul_rows(const A* a, const Stored* weights, BLOCKS_EXTRAS BETWEEN_EXTRAS EXTRAS Output* out,
                const Parameters p) {
  __shared__ float partial[SPLIT > 1 ? WARPS : 1][RESULTS];
#if NORMALIZED
  __shared__ Vec<A, CHUNK> normalized[ROWS][CHUNKS];
#endif
  let_next_kernel_start();  // whose weights then come with these
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % SPLIT, group = warp / SPLIT;
  const u32 first = (blockIdx.x * GROUPS + group) * COLUMNS;
  auto depth_of = [&](int step) { return (u32(step) * SPLIT + part) * STEP + lane * CHUNK; };
  Weights ahead[AHEAD][COLUMNS];
#if IN_BLOCKS
  const u32 pattern = kept(kByteAsFloat);
  float scale[SCALED_LAST ? 1 : AHEAD][COLUMNS], zero[ZEROS ? AHEAD : 1][COLUMNS];
#endif
  auto load = [&](int begin) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const u32 k = depth_of(begin + i);
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        ahead[i][c] = {};
        const bool there = (WHOLE || k < u32(DEPTH)) && first + c < p.columns;
#if IN_BLOCKS
        if (there) ahead[i][c] = load_vector<WORDS>(weights + (i64(first + c) * DEPTH + k) / CHUNK * WORDS);
        if constexpr (!SCALED_LAST) {
          const i64 block = i64(first + c) * BLOCKS + k / BLOCK;
          scale[SCALED_LAST ? 0 : i][c] = there ? scales[block] : 0.0f;
          if constexpr (ZEROS) zero[ZEROS ? i : 0][c] = there ? ZERO_AT(block) : 0.0f;
        }
#else
        if (there) ahead[i][c] = load_vector<CHUNK>(weights + i64(first + c) * DEPTH + k);
#endif
      }
    }
  };
  load(0);
#if NORMALIZED
  Row given;
  given.chunk = threadIdx.x % SHARING;
  if constexpr (FIXED_HELD)
    each_chunk(given, [&](int i, u32 chunk) { LOAD_FIXED(given.fixed[FIXED_HELD ? i : 0], chunk * CHUNK); });
#endif
  // The lane's own result.
  const u32 row = lane / COLUMNS, column = first + lane % COLUMNS;
  const bool stores = part == 0 && lane < RESULTS && column < p.columns;
  Extras extras;
  if (stores) LOAD_CONSTANT(extras, row, column);
#if IN_BLOCKS
  float last_scale = 1;
  if constexpr (SCALED_LAST)
    if (stores) last_scale = scales[column];
  Chunk ready[UNPACKED ? AHEAD : 1][COLUMNS];
  if constexpr (UNPACKED) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        Chunk& w = ready[UNPACKED ? i : 0][c];
        w = floats_of(ahead[i][c], pattern);
#pragma unroll
        for (int j = 0; j < CHUNK; ++j) {
          if constexpr (ZEROS) w.at[j] -= zero[ZEROS ? i : 0][c];
          w.at[j] = __uint_as_float(renewed(__float_as_uint(w.at[j])));
        }
      }
  }
#endif
  wait_for_inputs();
  if (stores) LOAD_GIVEN(extras, row, column);
#if NORMALIZED
  for (u32 r = ROWS == 1 ? 0 : warp; r < u32(ROWS); r += WARPS)
    normalize(given, a + i64(r) * p.a_row, normalized[r][0].at, p,
              [&](Fixed& to, u32 chunk) { LOAD_FIXED(to, chunk * CHUNK); });
  __syncthreads();
#endif
  float sums[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) sums[r][c] = 0;
#pragma unroll 1
  for (int begin = 0; begin < MINE; begin += AHEAD) {
    if (begin > 0) load(begin);
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const u32 k = depth_of(begin + i);
      if (!WHOLE && k >= u32(DEPTH)) break;
#if IN_BLOCKS
      Vec<A, CHUNK> rows[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) rows[r] = ROW_AT(r, k);
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        Chunk w;
        if constexpr (UNPACKED) w = ready[UNPACKED ? i : 0][c];
        else w = floats_of(ahead[i][c], pattern);
        if constexpr (ZEROS && !UNPACKED)
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) w.at[j] -= zero[ZEROS ? i : 0][c];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          float sum = SCALED_LAST ? sums[r][c] : 0;
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) sum = fmaf(hold(rows[r].at[j]), w.at[j], sum);
          sums[r][c] = SCALED_LAST ? sum : fmaf(sum, scale[SCALED_LAST ? 0 : i][c], sums[r][c]);
        }
      }
#else
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const Vec<A, CHUNK> x = ROW_AT(r, k);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) sums[r][c] = fmaf(hold(x.at[j]), hold(ahead[i][c].at[j]), sums[r][c]);
      }
#endif
    }
  }
  float mine = 0;
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const float sum = across_warp(sums[r][c]);
      if (lane == u32(r * COLUMNS + c)) mine = sum;
    }
  if constexpr (SPLIT > 1) {
    if (lane < RESULTS) partial[warp][lane] = mine;
    __syncthreads();
    if (stores) {
#pragma unroll
      for (int other = 1; other < SPLIT; ++other) mine += partial[warp + other][lane];
    }
  }
  if (!stores) return;
#if IN_BLOCKS
  mine *= last_scale;
#endif
  const Finished<Output> result[1] = {EPILOGUE(mine, extras)};
  store_results<Output, 1>(out + row * p.row_stride[0] + column * p.column_stride[0], result);
}
