// SPDX-License-Identifier: Apache-2.0
// One thread normalises one element by the channels around it, which lie in the cache. Generated before this text: T,
// Sum (what is computed in), Index.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u64 count;
  double bias, scale, beta;
  Divisor inner, channels;  // from one channel to the next
  i32 before, after;        // so many channels around an element
};

extern "C" __global__ void __launch_bounds__(256) lrn(const T* in, T* out, const Parameters p) {
  wait_for_inputs();
  const u64 thread = u64(blockIdx.x) * 256 + threadIdx.x;
  if (thread >= p.count) return;
  const Index plane = divide(Index(thread), p.inner);
  const i32 c = i32(plane - divide(plane, p.channels) * Index(p.channels.divisor)), channels = i32(p.channels.divisor);
  const i32 first = c < p.before ? -c : -p.before, last = channels - 1 - c < p.after ? channels - 1 - c : p.after;
  const T* const from = in + thread;
  Sum squares = 0;
  for (i32 k = first; k <= last; ++k) {
    const Sum v = Sum(hold(from[i64(k) * p.inner.divisor]));
    squares += v * v;
  }
  const Sum base = Sum(p.bias) + Sum(p.scale) * squares;
  out[thread] = store_as<T>(Held<T>(Sum(hold(*from)) / op::pow(base, Sum(p.beta))));
}
