// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, which are read once: a warp has COLUMNS columns of the result, whose
// weights lie one behind the other, and its lanes share their depth, 16 bytes at a time. SPLIT warps of a block share
// columns. As many weights as registers hold are on their way before the previous kernel has ended, with whatever else
// is constant. With NORMALIZED, rows are normalised before they are multiplied: every warp finds the mean and the
// variance of whole rows itself, for they are short, and a launch would take longer.
//
// Defined before this text: A (of the rows and the weights, f16 or bf16), Output, ROWS, DEPTH (a multiple of 8),
// COLUMNS, SPLIT, WARPS (of a block), OPERANDS (the output and the epilogue's inputs), EXTRAS (their parameters),
// struct Extras (a result's inputs of the epilogue), LOAD_CONSTANT and LOAD_GIVEN(to, row, column), which fill it in,
// and EPILOGUE(sum, extras). For NORMALIZED: CENTER, BETWEEN_EXTRAS (parameters), struct Fixed (what eight elements of
// any row have in common), LOAD_FIXED(to, k) and BETWEEN(value, fixed, j), which gives a value of A.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 columns;
  float inverse, epsilon;  // of a normalisation: 1 / DEPTH
  i64 a_row;               // elements from row to row
  i64 row_stride[OPERANDS], column_stride[OPERANDS];
};

constexpr int CHUNK = 8, STEP = 32 * CHUNK, STEPS = (DEPTH + STEP - 1) / STEP, MINE = (STEPS + SPLIT - 1) / SPLIT;
constexpr int HELD = ROWS <= 4 ? 16 : NORMALIZED ? 4 : 8;  // chunks of weights
constexpr int AHEAD = MINE * COLUMNS <= HELD ? MINE : HELD / COLUMNS, GROUPS = WARPS / SPLIT;
constexpr int RESULTS = ROWS * COLUMNS;  // of a warp, one for each of its first lanes
static_assert(RESULTS <= 32 && HELD % COLUMNS == 0, "lanes and registers");

DEVICE float across_warp(float sum) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
  return sum;
}

// The rows as they are multiplied.
struct Row {
  const A* at;
  float mean, factor;
};
#if NORMALIZED
// What rows have in common of the lane's chunks, where registers hold it.
constexpr bool FIXED_HELD = AHEAD == MINE && MINE <= 4;

// Sums of 16 bits are sums of f32 (see normalize.cu).
DEVICE Row normalized_row(const A* at, const Parameters& p) {
  const u32 first = threadIdx.x % 32 * CHUNK;
  Row row{at, 0, 0};
  constexpr bool KEPT = STEPS <= (ROWS > 4 ? 4 : 8);
  Vec<A, CHUNK> kept[KEPT ? STEPS : 1];
  auto each = [&](auto&& f) {
    auto chunk = [&](int i) {
      const u32 k = u32(i) * STEP + first;
      if (DEPTH % STEP && k >= u32(DEPTH)) return;
      const Vec<A, CHUNK> x = KEPT ? kept[KEPT ? i : 0] : load_vector<CHUNK>(at + k);
#pragma unroll
      for (int j = 0; j < CHUNK; ++j) f(hold(x.at[j]), j % 4);
    };
    if constexpr (KEPT) {
#pragma unroll
      for (int i = 0; i < STEPS; ++i) chunk(i);
    } else {
#pragma unroll 2
      for (int i = 0; i < STEPS; ++i) chunk(i);
    }
  };
  if constexpr (KEPT) {
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const u32 k = u32(i) * STEP + first;
      if (DEPTH % STEP == 0 || k < u32(DEPTH)) kept[KEPT ? i : 0] = load_vector<CHUNK>(at + k);
    }
  }
  if constexpr (CENTER) {
    float sums[4] = {};
    each([&](float x, int j) { sums[j] += x; });
    row.mean = across_warp((sums[0] + sums[1]) + (sums[2] + sums[3])) * p.inverse;
  }
  float squares[4] = {};
  each([&](float x, int j) { squares[j] = fmaf(x - row.mean, x - row.mean, squares[j]); });
  row.factor = reciprocal_root_fast(
      fmaf(across_warp((squares[0] + squares[1]) + (squares[2] + squares[3])), p.inverse, p.epsilon));
  return row;
}
#endif

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    matmul_rows(const A* a, const A* weights, BETWEEN_EXTRAS EXTRAS Output* out, const Parameters p) {
  __shared__ float partial[SPLIT > 1 ? WARPS : 1][RESULTS];
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % SPLIT, group = warp / SPLIT;
  const u32 first = (blockIdx.x * GROUPS + group) * COLUMNS;
  auto depth_of = [&](int step) { return (u32(step) * SPLIT + part) * STEP + lane * CHUNK; };
  Vec<A, CHUNK> ahead[AHEAD][COLUMNS];
  auto load = [&](int begin) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const u32 k = depth_of(begin + i);
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        ahead[i][c] = {};
        if (k < u32(DEPTH) && first + c < p.columns)
          ahead[i][c] = load_vector<CHUNK>(weights + i64(first + c) * DEPTH + k);
      }
    }
  };
  load(0);
#if NORMALIZED
  Fixed fixed[FIXED_HELD ? MINE : 1];
  if constexpr (FIXED_HELD) {
#pragma unroll
    for (int i = 0; i < MINE; ++i)
      if (depth_of(i) < u32(DEPTH)) LOAD_FIXED(fixed[FIXED_HELD ? i : 0], depth_of(i));
  }
#endif
  // The lane's own result.
  const u32 row = lane / COLUMNS, column = first + lane % COLUMNS;
  const bool stores = part == 0 && lane < RESULTS && column < p.columns;
  Extras extras;
  if (stores) LOAD_CONSTANT(extras, row, column);
  wait_for_inputs();
  if (stores) LOAD_GIVEN(extras, row, column);
  Row rows[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#if NORMALIZED
    rows[r] = normalized_row(a + i64(r) * p.a_row, p);
#else
    rows[r] = {a + i64(r) * p.a_row, 0, 1};
#endif
  }
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
      if (k >= u32(DEPTH)) break;
#if NORMALIZED
      Fixed of_chunk;
      if constexpr (FIXED_HELD) of_chunk = fixed[FIXED_HELD ? i : 0];
      else LOAD_FIXED(of_chunk, k);
#endif
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const Vec<A, CHUNK> given = load_vector<CHUNK>(rows[r].at + k);
        float x[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; ++j) {
          x[j] = hold(given.at[j]);
#if NORMALIZED
          x[j] = BETWEEN((x[j] - rows[r].mean) * rows[r].factor, of_chunk, j);
#endif
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) sums[r][c] = fmaf(x[j], hold(ahead[i][c].at[j]), sums[r][c]);
      }
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
  const Finished<Output> result[1] = {EPILOGUE(mine, extras)};
  store_results<Output, 1>(out + row * p.row_stride[0] + column * p.column_stride[0], result);
}
