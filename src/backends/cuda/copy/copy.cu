// SPDX-License-Identifier: Apache-2.0
// Moves elements from one arrangement of strides to another. Generated before this text: Element (by size), RANK,
// Index, and V: neighbours that lie side by side in both and are moved at once.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u64 count;     // of groups of V
  i64 from, to;  // offsets of the first element
  Walk<RANK, 2> walk;
};

extern "C" __global__ void __launch_bounds__(256) copy(const Element* in, Element* out, const Parameters p) {
  wait_for_inputs();
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  i64 at[2];
  walk_offsets<RANK, 2>(p.walk, Index(thread * V), at);
  store_vector(out + p.to + at[1], load_vector<V>(in + p.from + at[0]));
}
