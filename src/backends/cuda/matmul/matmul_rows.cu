// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, which are read once: a warp has COLUMNS columns of the result, whose
// weights lie one behind the other, and its lanes share their depth, 16 bytes at a time. SPLIT warps of a block share
// columns. As many weights as registers hold are on their way before the previous kernel has ended, with whatever else
// is constant. With NORMALIZED, every block normalises the rows first, in shared memory: they are short, and a launch
// would take longer.
//
// Defined before this text: A (of the rows and the weights, f16 or bf16), Output, ROWS, DEPTH (a multiple of 8),
// COLUMNS, SPLIT, WARPS (of a block), OPERANDS (the output and the epilogue's inputs), EXTRAS (their parameters),
// struct Extras (a result's inputs of the epilogue), LOAD_CONSTANT and LOAD_GIVEN(to, row, column), which fill it in,
// and EPILOGUE(sum, extras). For NORMALIZED: CENTER, BETWEEN_EXTRAS (parameters), struct Fixed (what eight elements of
// any row have in common), LOAD_FIXED(to, k) and BETWEEN(value, fixed, j), which gives a value of A.
#include "backends/cuda/rows/row_sums.cuh"

struct Parameters {
  u32 columns;
  float inverse, epsilon;  // of a normalisation: 1 / DEPTH
  i64 a_row;               // elements from row to row
  i64 row_stride[OPERANDS], column_stride[OPERANDS];
  NUMBERS
};

constexpr int CHUNK = 8, STEP = 32 * CHUNK, STEPS = (DEPTH + STEP - 1) / STEP, MINE = (STEPS + SPLIT - 1) / SPLIT;
constexpr int HELD = ROWS > 4 ? 8 : 16;  // chunks of weights
constexpr int AHEAD = MINE * COLUMNS <= HELD ? MINE : HELD / COLUMNS, GROUPS = WARPS / SPLIT;
constexpr bool WHOLE = DEPTH % (STEP * SPLIT) == 0 && MINE % AHEAD == 0;  // every load is inside of the depth
constexpr int RESULTS = ROWS * COLUMNS;                                   // of a warp, one for each of its first lanes
static_assert(RESULTS <= 32 && HELD % COLUMNS == 0, "lanes and registers");

DEVICE float across_warp(float sum) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
  return sum;
}

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
  float mean = 0;
  if constexpr (CENTER) {
    float sums[4] = {};
    each([&](float x, int, u32, int j) { sums[j % 4] += x; });
    PlainSum<float> sum{(sums[0] + sums[1]) + (sums[2] + sums[3])};
    mean = sum_across<SHARING, 0>(sum).value() * p.inverse;
  }
  float squares[4] = {};
  each([&](float x, int, u32, int j) { squares[j % 4] = fmaf(x - mean, x - mean, squares[j % 4]); });
  PlainSum<float> square{(squares[0] + squares[1]) + (squares[2] + squares[3])};
  const float factor = reciprocal_root_fast(fmaf(sum_across<SHARING, 1>(square).value(), p.inverse, p.epsilon));
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

// Of several rows, the compiler would rather spill than have fewer blocks beside each other, if it were not told.
extern "C" __global__ void __launch_bounds__(WARPS * 32, ROWS > 2 ? 2 : 0)
    matmul_rows(const A* a, const A* weights, BETWEEN_EXTRAS EXTRAS Output* out, const Parameters p) {
  __shared__ float partial[SPLIT > 1 ? WARPS : 1][RESULTS];
#if NORMALIZED
  __shared__ Vec<A, CHUNK> normalized[ROWS][CHUNKS];
#endif
  let_next_kernel_start();  // whose weights then come with these
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
        if ((WHOLE || k < u32(DEPTH)) && first + c < p.columns)
          ahead[i][c] = load_vector<CHUNK>(weights + i64(first + c) * DEPTH + k);
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
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
#if NORMALIZED
        const Vec<A, CHUNK> x = normalized[r][k / CHUNK];
#else
        const Vec<A, CHUNK> x = load_vector<CHUNK>(a + i64(r) * p.a_row + k);
#endif
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) sums[r][c] = fmaf(hold(x.at[j]), hold(ahead[i][c].at[j]), sums[r][c]);
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
