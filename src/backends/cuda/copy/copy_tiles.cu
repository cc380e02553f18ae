// SPDX-License-Identifier: Apache-2.0
// A transposing copy: what is innermost in one arrangement is not in the other. Tiles of 32 x 32 elements pass through
// shared memory, so that both sides see whole rows. Generated before this text: Element, RANK (axes beside the two),
// Index.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  i64 from, to;
  u32 columns, rows;          // columns: innermost of the output; rows: innermost of the input
  i64 in_stride, out_stride;  // of a column in the input, of a row in the output
  Divisor column_tiles, row_tiles;
  Walk<RANK, 2> walk;
};

extern "C" __global__ void __launch_bounds__(256) copy_tiles(const Element* in, Element* out, const Parameters p) {
  __shared__ Element tile[32][33];
  wait_for_inputs();
  const u32 block = blockIdx.x, rest = divide(block, p.column_tiles),
            column_tile = block - rest * p.column_tiles.divisor;
  const u32 batch = divide(rest, p.row_tiles), row_tile = rest - batch * p.row_tiles.divisor;
  i64 at[2];
  walk_offsets<RANK, 2>(p.walk, Index(batch), at);
  const u32 x = threadIdx.x % 32, y = threadIdx.x / 32;
  const u32 column = column_tile * 32, row = row_tile * 32;
#pragma unroll
  for (u32 i = 0; i < 32; i += 8)
    if (row + x < p.rows && column + y + i < p.columns)
      tile[y + i][x] = in[p.from + at[0] + i64(column + y + i) * p.in_stride + row + x];
  __syncthreads();
#pragma unroll
  for (u32 i = 0; i < 32; i += 8)
    if (column + x < p.columns && row + y + i < p.rows)
      out[p.to + at[1] + i64(row + y + i) * p.out_stride + column + x] = tile[x][y + i];
}
