// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels that resize the last two axes of images: what an element of the result is the sum of, along one
// axis. Generated before this text (resize.cc): T, V, TAPS_H and TAPS_W. One tap is the element itself, which is moved.
#include "backends/cuda/support/memory.cuh"

struct Taps {
  i32 index[2];
  float weight[2];
};

DEVICE Taps load_taps(const Taps* from) {
  const Vec<u32, 4> words = load_vector<4>(reinterpret_cast<const u32*>(from));
  return {{i32(words.at[0]), i32(words.at[1])}, {__uint_as_float(words.at[2]), __uint_as_float(words.at[3])}};
}

// Moved elements stay as they are in memory; others are held.
constexpr bool MOVES = TAPS_H * TAPS_W == 1;
template <bool>
struct NumberOf {
  using Type = T;
};
template <>
struct NumberOf<false> {
  using Type = float;
};
using Number = NumberOf<MOVES>::Type;
template <class X>
DEVICE auto number_of(X x) {
  if constexpr (MOVES) return x;
  else return float(hold(x));
}
template <class X>
DEVICE T as_stored(X x) {
  if constexpr (MOVES) return x;
  else return store_as<T>(x);
}

template <int TAPS, class N>
DEVICE N sum_of(const Taps& taps, N first, N second) {
  if constexpr (TAPS == 1) return first;
  else return taps.weight[0] * first + taps.weight[1] * second;
}
