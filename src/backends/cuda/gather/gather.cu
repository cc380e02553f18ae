// SPDX-License-Identifier: Apache-2.0
// One thread moves one piece of what an index picks. Generated before this text: Piece (1 to 16 bytes), At (an index),
// KIND (as in ops::GatherKind), LENGTH (indices of a position), RANK (of the walk over the output, where elements are
// picked one by one), INDEX(x) (what an element of the indices means) and NUMBERS.
#include "backends/cuda/support/memory.cuh"

constexpr int kAxis = 0, kElements = 1, kNd = 2;

struct Parameters {
  u32 count;                 // pieces of the output
  Divisor inner, per_outer;  // pieces that a position picks; positions of an outer step (axis) or of a batch (nd)
  i64 outer_stride;          // pieces from one outer step, or batch, to the next
  i64 size[LENGTH], stride[LENGTH];  // of the axes that indices go along: elements, pieces
  Walk<RANK, 1> walk;
  NUMBERS
};

extern "C" __global__ void __launch_bounds__(256)
    gather(const Piece* in, const At* indices, Piece* out, Fault* fault, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  u32 position = thread;
  i64 from = 0;
  if constexpr (KIND == kElements) {
    i64 at[1];
    walk_offsets<RANK, 1>(p.walk, thread, at);
    from = at[0];
  } else {
    position = divide(thread, p.inner);
    const u32 outer = divide(position, p.per_outer);
    from = i64(outer) * p.outer_stride + i64(thread - position * p.inner.divisor);
    if constexpr (KIND == kAxis) position -= outer * p.per_outer.divisor;
  }
#pragma unroll
  for (int k = 0; k < LENGTH; ++k) {
    i64 index = INDEX(indices[i64(position) * LENGTH + k]);
    if (!resolve_index(index, p.size[k], fault)) return;
    from += index * p.stride[k];
  }
  out[thread] = in[from];
}
