// SPDX-License-Identifier: Apache-2.0
// Kernels in which a thread computes EACH channels at one point of one image (channel_groups.h): what a point is made
// of is worked out once for them. Generated before this text: T, Index, EACH, CHANNELS_LAST (else planes lie apart).
#pragma once
#include "backends/cuda/support/memory.cuh"

struct ChannelGroup {
  i64 image;
  u32 point;
  i32 channel;  // the first one
};
// Neighbouring threads have neighbouring channels, or points where planes lie apart. `groups`: of channels.
DEVICE ChannelGroup channel_group(u64 thread, const Divisor& groups, const Divisor& points) {
  const Divisor &inner = CHANNELS_LAST ? groups : points, &outer = CHANNELS_LAST ? points : groups;
  const Index next = divide(Index(thread), inner), image = divide(next, outer);
  const u32 first = u32(Index(thread) - next * Index(inner.divisor)), second = u32(next - image * Index(outer.divisor));
  return {i64(image), CHANNELS_LAST ? second : first, i32(CHANNELS_LAST ? first : second) * EACH};
}

// The elements of the group at `from`, of which `left` are there; zeros for the others.
DEVICE Vec<T, EACH> load_channels(const T* from, i64 channel_stride, i32 left) {
  if constexpr (CHANNELS_LAST) return load_vector<EACH>(from);
  Vec<T, EACH> x = {};
#pragma unroll
  for (int e = 0; e < EACH; ++e)
    if (e < left) x.at[e] = from[e * channel_stride];
  return x;
}
DEVICE void store_channels(T* to, const Vec<T, EACH>& x, i64 channel_stride, i32 left) {
  if constexpr (CHANNELS_LAST) {
    store_vector(to, x);
  } else {
#pragma unroll
    for (int e = 0; e < EACH; ++e)
      if (e < left) to[e * channel_stride] = x.at[e];
  }
}
