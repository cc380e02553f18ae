// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <dnnl.hpp>
#include <optional>

#include "base/concat.h"
#include "base/error.h"

namespace temper {

namespace {

std::optional<IsaLevel>& limit() {
  static std::optional<IsaLevel> level;
  return level;
}

dnnl::cpu_isa onednn_isa(IsaLevel level) {
  switch (level) {
    case IsaLevel::base: return dnnl::cpu_isa::sse41;
    case IsaLevel::avx2: return dnnl::cpu_isa::avx2;
    case IsaLevel::avx512: return dnnl::cpu_isa::avx512_core;
    case IsaLevel::avx512_vnni: return dnnl::cpu_isa::avx512_core_vnni;
    case IsaLevel::avx512_bf16: return dnnl::cpu_isa::avx512_core_bf16;
    case IsaLevel::amx: break;
  }
  return dnnl::cpu_isa::all;
}

Isa& current() {
  static Isa isa = best_isa();
  return isa;
}

// oneDNN's own choice is made at its first question, whoever asks: the environment's limit is set before main().
const bool limited_at_start = [] {
  const char* const level = std::getenv("TEMPER_ISA");
  const auto names = enum_names(IsaLevel{});
  if (level && std::find(names.begin(), names.end(), level) != names.end()) limit_isa(level);
  return level != nullptr;
}();

}  // namespace

void limit_isa(std::string_view level) {
  const auto names = enum_names(IsaLevel{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != level) continue;
    const auto wanted = IsaLevel(i);
    if (limit() == wanted) return;
    // oneDNN refuses once it has looked.
    if (limit() || dnnl::set_max_cpu_isa(onednn_isa(wanted)) != dnnl::status::success)
      fail(ErrorKind::usage, "the CPU's instructions are limited already, or kernels were made: '", level,
           "' comes too late");
    limit() = wanted;
    return;
  }
  fail(ErrorKind::usage, "'", level,
       "' is no instruction set that Temper knows: base, avx2, avx512, avx512_vnni, "
       "avx512_bf16 and amx are");
}

IsaLevel isa_limit() {
  if (!limit()) {
    // Here only what is no name comes, to be refused.
    if (const char* level = std::getenv("TEMPER_ISA"); level && *level) limit_isa(level);
    else limit() = IsaLevel::amx;
  }
  return *limit();
}

Isa best_isa() {
#if defined(__x86_64__)
  const IsaLevel most = isa_limit();
  __builtin_cpu_init();
  if (most < IsaLevel::avx2 || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2"))
    return Isa::base;
  const bool wide = most >= IsaLevel::avx512 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  return wide ? Isa::avx512 : Isa::avx2;
#else
  return Isa::base;
#endif
}

Isa cpu_isa() { return current(); }
void set_isa(Isa isa) { current() = isa; }

}  // namespace temper
