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

// V results beside each other, rounded to T. Bytes are put together as words: as members of an array the compiler takes
// them apart once more.
template <class T, int V>
DEVICE void store_results(T* to, const Finished<T> (&x)[V]) {
  constexpr bool BYTES = !is_same<Finished<T>, Held<T>>, FLOAT8 = is_same<T, f8e4m3fn>;
  if constexpr (BYTES && V % 4 == 0) {
    Vec<u32, V / 4> words;
#pragma unroll
    for (int i = 0; i < V; i += 4)
      words.at[i / 4] = is_signed<T> ? saturated_i8x4(x[i], x[i + 1], x[i + 2], x[i + 3])
                                     : saturated_u8x4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    store_vector(reinterpret_cast<u32*>(to), words);
  } else if constexpr (FLOAT8 && V % 4 == 0) {
    Vec<u32, V / 4> words;
#pragma unroll
    for (int i = 0; i < V; i += 4)
      words.at[i / 4] = codes_of_f8e4m3fn(x[i], x[i + 1]) | codes_of_f8e4m3fn(x[i + 2], x[i + 3]) << 16;
    store_vector(reinterpret_cast<u32*>(to), words);
  } else if constexpr (FLOAT8 && V == 2) {
    *reinterpret_cast<u16*>(to) = u16(codes_of_f8e4m3fn(x[0], x[1]));
  } else if constexpr (BYTES && V == 2) {
    *reinterpret_cast<u16*>(to) =
        u16(is_signed<T> ? saturated_i8x4(x[0], x[1], 0, 0) : saturated_u8x4(x[0], x[1], 0, 0));
  } else {
    Vec<T, V> results;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if constexpr (BYTES)
        results.at[i] = T(is_signed<T> ? saturated_i8x4(x[i], 0, 0, 0) : saturated_u8x4(x[i], 0, 0, 0));
      else results.at[i] = store_as<T>(x[i]);
    }
    store_vector(to, results);
  }
}

// V bytes that are wanted as floats, loaded as words where they are some: as members of an array the compiler takes
// them apart and together again.
template <class T, int V>
using Bytes = Vec<u32, V / 4>;
template <int V, class T>
DEVICE Bytes<T, V> load_bytes(const T* from) {
  return load_vector<V / 4>(reinterpret_cast<const u32*>(from));
}
constexpr u32 kByteAsFloat = 0x4b000000;
// Element v; `pattern` is kept(kByteAsFloat). The instruction that converts a byte runs at an eighth of the speed of an
// addition; but of the floats from 2^23 to 2^24 each is an integer, and the low bits of their patterns count them.
template <class T, int WORDS>
DEVICE float byte_as_float(const Vec<u32, WORDS>& x, int v, u32 pattern) {
  const u32 word = x.at[v / 4] ^ (is_signed<T> ? 0x80808080u : 0u);
  return __uint_as_float(__byte_perm(word, pattern, 0x7440u | u32(v % 4))) - (is_signed<T> ? 8388736.0f : 8388608.0f);
}

// Every kernel that may start before the previous one in the stream has ended (PDL, Job::overlap) calls this on every
// path to its end, before it reads or writes anything but constants. From here on the next kernel may start (with
// let_next_kernel_start already before), and what previous kernels wrote is visible.
DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  launch_dependents();
#endif
}
DEVICE void wait_for_inputs() {
  let_next_kernel_start();
#if __CUDA_ARCH__ >= 900
  wait_for_previous_kernel();
#endif
}

// What a kernel writes of invalid data that it meets (struct Fault of machine.h); wait() throws it as an error.
struct Fault {
  i64 index, size;
  u32 raised;  // one of these
};
constexpr u32 kIndexOutside = 1, kRegionTooLarge = 2;
// Counts an index from the end where it is negative; false, with the fault filled in, where there is no such element.
DEVICE bool resolve_index(i64& index, i64 size, Fault* fault) {
  if (index < -size || index >= size) {
    fault->index = index;
    fault->size = size;
    fault->raised = kIndexOutside;
    return false;
  }
  if (index < 0) index += size;
  return true;
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
