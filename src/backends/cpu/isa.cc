// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/isa.h"

namespace temper {

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
    return Isa::base;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  return wide ? Isa::avx512 : Isa::avx2;
#else
  return Isa::base;
#endif
}

static Isa& current() {
  static Isa isa = best_isa();
  return isa;
}

Isa cpu_isa() { return current(); }
void set_isa(Isa isa) { current() = isa; }

}  // namespace temper
