// SPDX-License-Identifier: Apache-2.0
// Updates that replace: of those that meet in a target the last one owns it, whichever comes first here.
#include "backends/cuda/scatter/scatter.cuh"

struct Parameters {
  u32 positions;
};

extern "C" __global__ void __launch_bounds__(256) scatter_claim(const u32* found, i32* owners, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.positions) return;
  const u32 target = found[thread];
  if (target != kNoTarget) atomicMax(&owners[target], i32(thread));
}
