// SPDX-License-Identifier: Apache-2.0
// CUDA C++ for a CPU: stands in front of a kernel's text. __global__ and __cluster_dims__ are taken out by the compiler
// of the emulator (nvrtc.cc), which puts an entry for each kernel behind the text.
#pragma once
// C's own headers, by libstdc++'s switch for them: C++'s mathematics alone is 16,000 lines in front of each kernel.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <stdlib.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <string.h>

#include "machine.h"

extern "C" temper::emulator::Machine* temper_machine;

#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx (temper_machine->thread)
#define blockIdx (temper_machine->block)
#define blockDim (temper_machine->block_dim)
#define gridDim (temper_machine->grid_dim)

inline void __syncthreads() { temper_machine->barrier(); }
inline void __syncwarp() {
  temper_machine->together(32, nullptr, [](void**) {});
}

template <class T>
T __shfl_up_sync(unsigned, T x, unsigned delta) {
  struct Word {
    T in, out;
    unsigned delta;
  } word{x, x, delta};
  temper_machine->together(32, &word, [](void** all) {
    for (unsigned i = 0; i < 32; ++i) {
      Word* mine = static_cast<Word*>(all[i]);
      if (i >= mine->delta) mine->out = static_cast<Word*>(all[i - mine->delta])->in;
    }
  });
  return word.out;
}
template <class T>
T __shfl_sync(unsigned, T x, unsigned from) {
  struct Word {
    T in, out;
    unsigned from;
  } word{x, x, from};
  temper_machine->together(32, &word, [](void** all) {
    for (unsigned i = 0; i < 32; ++i) {
      Word* mine = static_cast<Word*>(all[i]);
      mine->out = static_cast<Word*>(all[mine->from % 32])->in;
    }
  });
  return word.out;
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  struct Word {
    T in, out;
    int mask;
  } word{x, x, mask};
  temper_machine->together(32, &word, [](void** all) {
    for (int i = 0; i < 32; ++i) {
      Word* mine = static_cast<Word*>(all[i]);
      mine->out = static_cast<Word*>(all[i ^ mine->mask])->in;
    }
  });
  return word.out;
}

// Nothing else runs between two steps of a lane.
template <class T>
inline T atomicMax(T* at, T x) {
  const T before = *at;
  if (x > before) *at = x;
  return before;
}

template <class T>
inline T atomicAdd(T* at, T x) {
  const T before = *at;
  *at += x;
  return before;
}

template <class To, class From>
inline To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  memcpy(&r, &x, sizeof r);
  return r;
}
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
inline int __float_as_int(float x) { return bits_as<int>(x); }
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((static_cast<unsigned long long>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// Conversions saturate; NaN is 0 in 32 bits, and the number with the highest bit alone in 64.
template <class To, class From>
inline To truncated(From x, To low, To high, To of_nan) {
  if (x != x) return of_nan;
  if (x <= From(low)) return low;
  if (x >= From(high)) return high;
  return To(x);
}
using TemperSigned = long long;
using TemperUnsigned = unsigned long long;
#define TEMPER_CONVERSION(name, To, From, low, high, of_nan) \
  inline To name(From x) { return truncated<To, From>(x, To(low), To(high), To(of_nan)); }
TEMPER_CONVERSION(__float2int_rz, int, float, 0x80000000, 0x7fffffff, 0)
TEMPER_CONVERSION(__double2int_rz, int, double, 0x80000000, 0x7fffffff, 0)
TEMPER_CONVERSION(__float2uint_rz, unsigned, float, 0, 0xffffffff, 0)
TEMPER_CONVERSION(__double2uint_rz, unsigned, double, 0, 0xffffffff, 0)
TEMPER_CONVERSION(__float2ll_rz, TemperSigned, float, 1ull << 63, ~0ull >> 1, 1ull << 63)
TEMPER_CONVERSION(__double2ll_rz, TemperSigned, double, 1ull << 63, ~0ull >> 1, 1ull << 63)
TEMPER_CONVERSION(__float2ull_rz, TemperUnsigned, float, 0, ~0ull, 1ull << 63)
TEMPER_CONVERSION(__double2ull_rz, TemperUnsigned, double, 0, ~0ull, 1ull << 63)

template <class T>
inline unsigned larger_bytes(unsigned a, unsigned b) {
  unsigned r = 0;
  for (int i = 0; i < 32; i += 8) {
    const T x = T(a >> i), y = T(b >> i);
    r |= unsigned(static_cast<unsigned char>(x > y ? x : y)) << i;
  }
  return r;
}
inline unsigned __vmaxs4(unsigned a, unsigned b) { return larger_bytes<signed char>(a, b); }
inline unsigned __vmaxu4(unsigned a, unsigned b) { return larger_bytes<unsigned char>(a, b); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 0xf, byte = unsigned(both >> (8 * (nibble & 7))) & 0xff;
    r |= (nibble & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * i);
  }
  return r;
}

namespace temper::emulator {
template <unsigned... I>
struct Numbers {};
template <unsigned COUNT, unsigned... I>
struct NumbersTo : NumbersTo<COUNT - 1, COUNT - 1, I...> {};
template <unsigned... I>
struct NumbersTo<0, I...> {
  using type = Numbers<I...>;
};
template <class T>
struct Variable {
  using type = T;
};
template <class T>
struct Variable<const T> {
  using type = T;
};
}  // namespace temper::emulator

template <class F>
struct BoundKernel;
template <class... P>
struct BoundKernel<void (*)(P...)> final : temper::emulator::Bound {
  void (*kernel)(P...);
  unsigned char* values[sizeof...(P)];
  BoundKernel(void (*k)(P...), void** arguments) : kernel(k) {
    const size_t sizes[] = {sizeof(P)...};
    for (size_t i = 0; i < sizeof...(P); ++i) {
      values[i] = static_cast<unsigned char*>(aligned_alloc(128, (sizes[i] + 127) / 128 * 128));
      memcpy(values[i], arguments[i], sizes[i]);
    }
  }
  ~BoundKernel() override {
    for (unsigned char* value : values) free(value);
  }
  void run() override { call(typename temper::emulator::NumbersTo<sizeof...(P)>::type()); }
  template <unsigned... I>
  void call(temper::emulator::Numbers<I...>) {
    kernel(*reinterpret_cast<typename temper::emulator::Variable<P>::type*>(values[I])...);
  }
};
