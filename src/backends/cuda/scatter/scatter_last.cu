// SPDX-License-Identifier: Apache-2.0
// Each update that owns its target is written there; a thread moves one piece. Generated before this text: Piece (1 to
// 16 bytes).
#include "backends/cuda/scatter/scatter.cuh"

struct Parameters {
  u32 count;      // pieces of the updates
  Divisor inner;  // pieces of a target
};

extern "C" __global__ void __launch_bounds__(256)
    scatter_last(const Piece* updates, const u32* found, const i32* owners, Piece* out, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 position = divide(thread, p.inner), target = found[position];
  if (target == kNoTarget || owners[target] != i32(position)) return;
  out[i64(target) * p.inner.divisor + (thread - position * p.inner.divisor)] = updates[thread];
}
