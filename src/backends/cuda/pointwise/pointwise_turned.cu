// SPDX-License-Identifier: Apache-2.0
// A pointwise program of pictures in channels_last, whose result is plain. Each thread computes V neighbouring pixels:
// it reads all of their channels at once, and writes V results to the plane of each channel. Generated before this text
// (pointwise.cc): program(), NUMBERS, In (elements of the pictures), Output, CHANNELS, V, READ (whether the program
// reads the pictures at all), AS_FLOATS (whether it gets bytes as floats), INPUTS (parameters; the pictures are `in`),
// COLUMNS (one x<i> for each other input that is read, of channel c), CALL (program() of PIXEL and those).
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u32 pixels;     // of all pictures; V divides those of one
  Divisor plane;  // pixels of one
  NUMBERS
};

#if AS_FLOATS
#define PIXEL byte_as_float<In>(pixels[(k * CHANNELS + c) / V], (k * CHANNELS + c) % V, pattern)
#else
#define PIXEL hold(pixels[(k * CHANNELS + c) / V].at[(k * CHANNELS + c) % V])
#endif

extern "C" __global__ void __launch_bounds__(256) pointwise_turned(INPUTS Output* out, const Parameters p) {
  wait_for_inputs();
  const u32 first = (blockIdx.x * 256 + threadIdx.x) * V;
  if (first >= p.pixels) return;
  const u32 n = divide(first, p.plane);
  out += i64(n) * (CHANNELS - 1) * p.plane.divisor + first;
#if AS_FLOATS
  const u32 pattern = kept(kByteAsFloat);
  Bytes<In, V> pixels[CHANNELS];
#pragma unroll
  for (int i = 0; i < CHANNELS; ++i) pixels[i] = load_bytes<V>(in + i64(first) * CHANNELS + i * V);
#elif READ
  Vec<In, V> pixels[CHANNELS];
#pragma unroll
  for (int i = 0; i < CHANNELS; ++i) pixels[i] = load_vector<V>(in + i64(first) * CHANNELS + i * V);
#endif
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    COLUMNS
    Finished<Output> results[V];
#pragma unroll
    for (int k = 0; k < V; ++k) results[k] = CALL;
    store_results<Output, V>(out + i64(c) * p.plane.divisor, results);
  }
}
