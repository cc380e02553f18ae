// SPDX-License-Identifier: Apache-2.0
// Temper's own kernels are loops that the compiler vectorises. vectorised(loop) holds the loop compiled three times and
// runs the widest version this CPU has, so that one binary for any x86-64 uses AVX2 and AVX-512 where they are present.
#pragma once
#include <cstdint>

namespace temper {

// In front of a loop whose iterations do not depend on each other through memory.
#if defined(__clang__)
#define TEMPER_NO_ALIAS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TEMPER_NO_ALIAS _Pragma("GCC ivdep")
#endif

enum class Isa : uint8_t { base, avx2, avx512 };
Isa cpu_isa();          // what kernels use now
Isa best_isa();         // the widest that this CPU can run
void set_isa(Isa isa);  // for tests; the caller stays at or below best_isa()

#if defined(__x86_64__) && defined(__GNUC__)
// Not target("arch=..."): the loop's own, plain code may be inlined only where the architecture is the same.
template <class Loop>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi,bmi2"), flatten, noinline)) void
run_avx512(Loop loop) {
  loop();
}
template <class Loop>
__attribute__((target("avx2,fma,f16c,bmi,bmi2"), flatten, noinline)) void run_avx2(Loop loop) {
  loop();
}

// The closure is passed by value: captured by value too ([=]), its members live in registers.
template <class Loop>
inline void vectorised(Loop loop) {
  switch (cpu_isa()) {
    case Isa::avx512: return run_avx512(loop);
    case Isa::avx2: return run_avx2(loop);
    default: return loop();
  }
}
#else
template <class Loop>
inline void vectorised(Loop loop) {
  loop();
}
#endif

}  // namespace temper
