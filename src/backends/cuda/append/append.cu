// SPDX-License-Identifier: Apache-2.0
// A thread moves pieces of rows: of the new ones alone where y is x, else of all positions, from x or from the new
// rows. Generated before this text: Piece (1 to 16 bytes).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  Divisor pieces, positions, rows;  // of a row; of x; new ones (at least 1)
  u32 batch, count, pitch;          // new rows; pieces from one of them to the next
};

extern "C" __global__ void __launch_bounds__(256)
    append(const Piece* x, const Piece* rows, const i64* lengths, Piece* y, Fault* fault, const Parameters p) {
  wait_for_inputs();
  const bool in_place = x == y;
  const u32 all = p.batch * (in_place ? p.count : p.positions.divisor) * p.pieces.divisor;
  for (u32 i = blockIdx.x * 256 + threadIdx.x; i < all; i += gridDim.x * 256) {
    const u32 row = divide(i, p.pieces), piece = i - row * p.pieces.divisor;
    const u32 batch = divide(row, in_place ? p.rows : p.positions);
    const u32 position = row - batch * (in_place ? p.count : p.positions.divisor);
    const i64 length = lengths[batch];
    if (length < 0 || length > i64(p.positions.divisor) - i64(p.count)) {
      i64 last = length < 0 ? length - i64(p.positions.divisor) : length + i64(p.count) - 1;
      resolve_index(last, i64(p.positions.divisor), fault);
      return;
    }
    const i64 fresh = in_place ? i64(position) : i64(position) - length;
    if (fresh >= 0 && fresh < i64(p.count)) {
      const u32 to = batch * p.positions.divisor + u32(length + fresh);
      y[i64(to) * p.pieces.divisor + piece] = rows[i64(batch * p.count + u32(fresh)) * p.pitch + piece];
    } else {
      y[i] = x[i];
    }
  }
}
