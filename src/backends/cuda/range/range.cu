// SPDX-License-Identifier: Apache-2.0
// One thread writes one element. Generated before this text: Element.
#include "backends/cuda/support/memory.cuh"

struct Parameters {
  u64 count;
};

template <class T>
DEVICE T element(T start, T delta, u64 i) {
  if constexpr (is_float<T>) return T(double(start) + double(i) * double(delta));
  else return T(u64(start) + i * u64(delta));
}

extern "C" __global__ void __launch_bounds__(256)
    range(const Element* start, const Element* delta, Element* out, const Parameters p) {
  wait_for_inputs();
  const u64 i = u64(blockIdx.x) * 256 + threadIdx.x;
  if (i >= p.count) return;
  out[i] = store_as<Element>(element(hold(*start), hold(*delta), i));
}
