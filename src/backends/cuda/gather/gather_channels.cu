// SPDX-License-Identifier: Apache-2.0
// Channels by a list of indices, where the channels of a pixel lie side by side: one thread writes V of them at once.
// Generated before this text: Element (1 to 8 bytes), At (an index), V.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 count;        // groups of V channels of the output
  Divisor per_row;  // of them, of a pixel
  i64 channels;     // of the input
};

extern "C" __global__ void __launch_bounds__(256)
    gather_channels(const Element* in, const At* indices, Vec<Element, V>* out, Fault* fault, const Parameters p) {
  wait_for_inputs();
  const u32 thread = blockIdx.x * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const u32 pixel = divide(thread, p.per_row), first = (thread - pixel * p.per_row.divisor) * V;
  in += i64(pixel) * p.channels;
  Vec<Element, V> values;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    i64 index = i64(indices[first + i]);
    if (!resolve_index(index, p.channels, fault)) return;
    values.at[i] = in[index];
  }
  out[thread] = values;
}
