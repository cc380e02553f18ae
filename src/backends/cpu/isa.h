// SPDX-License-Identifier: Apache-2.0
// Temper's own kernels are loops that the compiler vectorises. vectorised(loop) holds the loop compiled three times and
// runs the widest version this CPU has, so that one binary for any x86-64 uses AVX2 and AVX-512 where they are present.
// On aarch64 every CPU has the same vectors of 128 bits, and the loop is compiled once.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace temper {

// In front of a loop whose iterations do not depend on each other through memory.
#if defined(__clang__)
#define TEMPER_NO_ALIAS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TEMPER_NO_ALIAS _Pragma("GCC ivdep")
#endif

// Levels of instructions of a CPU, each with all before it; the last one limits nothing. AVX-VNNI is younger than
// AVX-512, and stands here because CPUs without AVX-512 have it.
#if defined(__aarch64__)
enum class IsaLevel : uint8_t { base, dotprod };
constexpr std::array<std::string_view, 2> enum_names(IsaLevel) { return {"base", "dotprod"}; }
constexpr IsaLevel kNoLimit = IsaLevel::dotprod;
#else
enum class IsaLevel : uint8_t { base, avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16, amx };
constexpr std::array<std::string_view, 7> enum_names(IsaLevel) {
  return {"base", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"};
}
constexpr IsaLevel kNoLimit = IsaLevel::amx;
#endif
// Nothing above `level`, one of those names, is used by this process, by oneDNN neither. Throws Error{usage} for
// another name, and where kernels were made already.
void limit_isa(std::string_view level);
// Likewise TEMPER_ISA in the environment says so, unless limit_isa() did.
IsaLevel isa_limit();
std::string isa_names();  // "base, avx2, ..."

// The levels that Temper's own kernels are compiled for.
enum class Isa : uint8_t { base, avx2, avx512 };
Isa cpu_isa();          // what kernels use now
Isa best_isa();         // the widest that this CPU can run and isa_limit() allows
void set_isa(Isa isa);  // for tests; the caller stays at or below best_isa()

// Floats of the vectors that a loop for narrow registers is written in: AVX2's, of which there are 16, or aarch64's, of
// which there are 32.
#if defined(__aarch64__)
constexpr int kNarrow = 4;
#else
constexpr int kNarrow = 8;
#endif

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
// For CPUs of x86 without AVX2, from before 2013: small code (cold), as the two others are large.
template <class Loop>
__attribute__((cold, noinline)) void run_base(Loop loop) {
  loop();
}

// The closure is passed by value: captured by value too ([=]), its members live in registers.
template <class Loop>
inline void vectorised(Loop loop) {
  switch (cpu_isa()) {
    case Isa::avx512: return run_avx512(loop);
    case Isa::avx2: return run_avx2(loop);
    default: return run_base(loop);
  }
}

// A loop written for vectors of kNarrow floats: with AVX-512, too, compiled for AVX2.
template <class Loop>
inline void vectorised_by_8(Loop loop) {
  if (cpu_isa() == Isa::base) run_base(loop);
  else run_avx2(loop);
}

// One of two loops, the first written for vectors of 16 floats, which only AVX-512 holds in a register.
template <class Wide, class Narrow>
inline void vectorised_by_16_or_8(Wide wide, Narrow narrow) {
  if (cpu_isa() == Isa::avx512) run_avx512(wide);
  else vectorised_by_8(narrow);
}
#else
template <class Loop>
inline void vectorised(Loop loop) {
  loop();
}
template <class Loop>
inline void vectorised_by_8(Loop loop) {
  loop();
}
template <class Wide, class Narrow>
inline void vectorised_by_16_or_8(Wide, Narrow narrow) {
  narrow();
}
#endif

}  // namespace temper
