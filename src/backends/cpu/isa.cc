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

// False where oneDNN has looked at the CPU already.
bool limit_onednn(IsaLevel level) {
#if defined(__aarch64__)
  (void)level;  // of what it chooses there, Debian's has SVE's alone
  return true;
#else
  using dnnl::cpu_isa;
  constexpr cpu_isa most[] = {cpu_isa::sse41,
                              cpu_isa::avx2,
                              cpu_isa::avx2_vnni,
                              cpu_isa::avx512_core,
                              cpu_isa::avx512_core_vnni,
                              cpu_isa::avx512_core_bf16,
                              cpu_isa::all};
  return dnnl::set_max_cpu_isa(most[size_t(level)]) == dnnl::status::success;
#endif
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
    if (limit() || !limit_onednn(wanted))
      fail(ErrorKind::usage, "the CPU's instructions are limited already, or kernels were made: '", level,
           "' comes too late");
    limit() = wanted;
    return;
  }
  fail(ErrorKind::usage, "'", level, "' is no instruction set that Temper knows here; these are: ", isa_names());
}

std::string isa_names() {
  std::string text;
  for (const std::string_view name : enum_names(IsaLevel{})) text += concat(text.empty() ? "" : ", ", name);
  return text;
}

IsaLevel isa_limit() {
  if (!limit()) {
    // Here only what is no name comes, to be refused.
    if (const char* level = std::getenv("TEMPER_ISA"); level && *level) limit_isa(level);
    else limit() = kNoLimit;
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
