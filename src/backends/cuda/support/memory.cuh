// SPDX-License-Identifier: Apache-2.0
// Vectors in memory and the arithmetic of positions.
#pragma once
#include "backends/cuda/support/scalar.cuh"

// V neighbours, moved with as few instructions as their size allows: 16 bytes at most each.
template <class T, int V>
struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Vec {
  T at[V];
};

template <int V, class T>
DEVICE Vec<T, V> load_vector(const T* from) {
  return *reinterpret_cast<const Vec<T, V>*>(from);
}
template <int V, class T>
DEVICE Vec<T, V> load_splat(const T* from) {
  const T x = *from;
  Vec<T, V> r;
#pragma unroll
  for (int k = 0; k < V; ++k) r.at[k] = x;
  return r;
}
template <int V, class T, class Offset>
DEVICE Vec<T, V> load_strided(const T* from, Offset stride) {
  Vec<T, V> r;
#pragma unroll
  for (int k = 0; k < V; ++k) r.at[k] = from[k * stride];
  return r;
}
template <class T, int V>
DEVICE void store_vector(T* to, const Vec<T, V>& x) {
  *reinterpret_cast<Vec<T, V>*>(to) = x;
}

// What every kernel calls that may start before the one in front of it in the stream has ended (Job::overlap), on every
// way to its end and before it reads or writes anything but constants: the next one may be started from here on, and
// what the ones in front wrote is there.
DEVICE void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Division by a number that is known at launch: n / divisor = (mulhi(n, multiplier) + n) >> shift for n < 2^31
// (Granlund and Montgomery 1994, figure 4.1). The host fills it in (Divisor in launch.h).
struct Divisor {
  u32 divisor, multiplier, shift;
};
DEVICE u32 divide(u32 n, const Divisor& d) { return (__umulhi(n, d.multiplier) + n) >> d.shift; }
DEVICE u64 divide(u64 n, const Divisor& d) { return n / d.divisor; }

// The axes of a walk, innermost last.
template <int RANK, int OPERANDS>
struct Walk {
  Divisor sizes[RANK == 0 ? 1 : RANK];
  i64 strides[OPERANDS == 0 ? 1 : OPERANDS][RANK == 0 ? 1 : RANK];  // in elements
};
// Position `index` of the walk as an offset for each operand.
template <int RANK, int OPERANDS, class Index>
DEVICE void walk_offsets(const Walk<RANK, OPERANDS>& walk, Index index, i64 (&offsets)[OPERANDS == 0 ? 1 : OPERANDS]) {
#pragma unroll
  for (int o = 0; o < OPERANDS; ++o) offsets[o] = 0;
#pragma unroll
  for (int axis = RANK - 1; axis >= 0; --axis) {
    Index at = index;
    if (axis > 0) {
      index = divide(at, walk.sizes[axis]);
      at -= index * Index(walk.sizes[axis].divisor);
    }
#pragma unroll
    for (int o = 0; o < OPERANDS; ++o) offsets[o] += i64(at) * walk.strides[o][axis];
  }
}
