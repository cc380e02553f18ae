// SPDX-License-Identifier: Apache-2.0
// Products of few rows by constant weights, which are read once: a warp has COLUMNS columns of the result, whose
// weights lie one behind the other, and its lanes share their depth, 16 bytes at a time. SPLIT warps of a block share
// columns. As many weights as registers hold are on their way before the previous kernel has ended: they are constants.
//
// Defined before this text: A (of the rows and the weights, f16 or bf16), Output, ROWS, DEPTH (a multiple of 8),
// COLUMNS, SPLIT, WARPS (of a block), OPERANDS (the output and the epilogue's inputs), EXTRAS (their parameters) and
// EPILOGUE(sum, row, column).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 columns;
  i64 a_row;  // elements from row to row
  i64 row_stride[OPERANDS], column_stride[OPERANDS];
};

constexpr int CHUNK = 8, STEP = 32 * CHUNK, STEPS = (DEPTH + STEP - 1) / STEP, MINE = (STEPS + SPLIT - 1) / SPLIT;
constexpr int HELD = ROWS > 4 ? 8 : 16;  // chunks of weights
constexpr int AHEAD = MINE * COLUMNS <= HELD ? MINE : HELD / COLUMNS, GROUPS = WARPS / SPLIT;

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    matmul_rows(const A* a, const A* weights, EXTRAS Output* out, const Parameters p) {
  __shared__ float partial[WARPS][ROWS * COLUMNS];
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % SPLIT, group = warp / SPLIT;
  const u32 first = (blockIdx.x * GROUPS + group) * COLUMNS;
  Vec<A, CHUNK> ahead[AHEAD][COLUMNS];
  auto load = [&](int begin) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const u32 k = (u32(begin + i) * SPLIT + part) * STEP + lane * CHUNK;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        ahead[i][c] = {};
        if (k < u32(DEPTH) && first + c < p.columns)
          ahead[i][c] = load_vector<CHUNK>(weights + i64(first + c) * DEPTH + k);
      }
    }
  };
  load(0);
  wait_for_inputs();
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
      const u32 k = (u32(begin + i) * SPLIT + part) * STEP + lane * CHUNK;
      if (k >= u32(DEPTH)) break;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const Vec<A, CHUNK> x = load_vector<CHUNK>(a + i64(r) * p.a_row + k);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
          for (int j = 0; j < CHUNK; ++j) sums[r][c] = fmaf(hold(x.at[j]), hold(ahead[i][c].at[j]), sums[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      float sum = sums[r][c];
#pragma unroll
      for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
      if (lane == 0) partial[warp][r * COLUMNS + c] = sum;
    }
  if constexpr (SPLIT > 1) __syncthreads();
  else __syncwarp();
  if (part > 0) return;
  for (u32 item = lane; item < u32(ROWS * COLUMNS); item += 32) {
    float sum = partial[warp][item];
#pragma unroll
    for (int other = 1; other < SPLIT; ++other) sum += partial[warp + other][item];
    const u32 row = item / COLUMNS, column = first + item % COLUMNS;
    if (column >= p.columns) continue;
    const Finished<Output> result[1] = {EPILOGUE(sum, row, column)};
    store_results<Output, 1>(out + row * p.row_stride[0] + column * p.column_stride[0], result);
  }
}
