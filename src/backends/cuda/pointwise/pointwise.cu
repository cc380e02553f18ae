// SPDX-License-Identifier: Apache-2.0
// Each thread computes V neighbours of the output's memory. Generated before this text (pointwise.cc): program(),
// NUMBERS, V, Index, RANK and WALKED (inputs, and the output, whose position must be computed), INPUTS (parameters),
// LOADS (one Vec x<i> for each input that is read), CALL and TAIL_CALL (program() of element k), Output, RESULT (where
// the first of the V goes).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u64 count;
  Walk<RANK, WALKED> walk;
  NUMBERS
};

extern "C" __global__ void __launch_bounds__(256) pointwise(INPUTS Output* out, const Parameters p) {
  wait_for_inputs();
  const Index first = (Index(blockIdx.x) * 256 + threadIdx.x) * V;
  if (first >= p.count) return;
  i64 at[WALKED == 0 ? 1 : WALKED];
  walk_offsets<RANK, WALKED>(p.walk, first, at);
  if (V == 1 || first + V <= p.count) {
    Vec<Output, V> result;
    LOADS
#pragma unroll
    for (int k = 0; k < V; ++k) result.at[k] = store_as<Output>(CALL);
    store_vector(out + RESULT, result);
  } else {
    for (int k = 0; first + k < p.count; ++k) out[first + k] = store_as<Output>(TAIL_CALL);
  }
}
