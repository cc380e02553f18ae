// SPDX-License-Identifier: Apache-2.0
// Copies x to the output, where that is other memory, and finds for each position in the indices the element of the
// output, or the slice of neighbours, that it names. Generated before this text: At (an index), LENGTH (indices of a
// position), RANK (of the walk over the indices, where they stand for single elements), CLAIMS (whether owners are
// forgotten).
#include "backends/cuda/scatter/scatter.cuh"

struct Parameters {
  u32 pieces, tail;        // of x: 16 bytes each, and the bytes behind them
  u32 targets, positions;  // of the output; in the indices
  i64 size[LENGTH];        // of the axes that indices go along
  u32 stride[LENGTH];      // targets from one index to the next
  Walk<RANK, 1> walk;
};

extern "C" __global__ void __launch_bounds__(256)
    scatter_targets(const Vec<u32, 4>* x, const At* indices, Vec<u32, 4>* out, u32* found, i32* owners, Fault* fault,
                    const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  const bool copies = x != out;  // a cache that is kept lies where it is
  if (copies && thread < p.pieces) out[thread] = x[thread];
  if (copies && thread < p.tail)
    reinterpret_cast<u8*>(out + p.pieces)[thread] = reinterpret_cast<const u8*>(x + p.pieces)[thread];
  if (CLAIMS && thread < p.targets) owners[thread] = -1;
  if (thread >= p.positions) return;
  i64 at[1] = {0};
  if constexpr (RANK > 0) walk_offsets<RANK, 1>(p.walk, thread, at);
  u32 target = u32(at[0]);
#pragma unroll
  for (int k = 0; k < LENGTH; ++k) {
    i64 index = i64(indices[i64(thread) * LENGTH + k]);
    if (!resolve_index(index, p.size[k], fault)) {
      target = kNoTarget;
      break;
    }
    target += u32(index) * p.stride[k];
  }
  found[thread] = target;
}
