// SPDX-License-Identifier: Apache-2.0
// Describes the CPU: its model and instruction sets, which timings are kept by, and the layouts that suit it.
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>
#include <fstream>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "base/version.h"

namespace temper {

// Kernels of aarch64 print no name, but numbers of the maker and the part.
static std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string family, model, name;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    auto value = [&] { return line.substr(std::min(line.find(':') + 2, line.size())); };
    if (line.starts_with("cpu family")) family = value();
    else if (line.starts_with("model name")) name = value();
    else if (line.starts_with("model\t") || line.starts_with("CPU part")) model = value();
    else if (line.starts_with("CPU implementer")) family = value();
  }
  return concat(name, " family ", family, " model ", model);
}

#if defined(__x86_64__)
// Not of __builtin_cpu_supports(), whose list in Clang 14 is without it (Intel's manual: CPUID, leaf 7, subleaf 1).
static bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1U << 4);
}
#endif

Device cpu_device() {
  static const Device device = [] {
    Device d;
    d.backend = "cpu";
    const IsaLevel most = isa_limit();
#if defined(__x86_64__)
    d.avx2 = most >= IsaLevel::avx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    d.dot_product = d.avx2 && most >= IsaLevel::avx_vnni && has_avx_vnni();
    d.avx512 = most >= IsaLevel::avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    d.avx512_vnni = d.avx512 && most >= IsaLevel::avx512_vnni && __builtin_cpu_supports("avx512vnni");
    d.avx512_bf16 = d.avx512_vnni && most >= IsaLevel::avx512_bf16 && __builtin_cpu_supports("avx512bf16");
    d.amx = d.avx512_bf16 && most >= IsaLevel::amx && dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
#elif defined(__aarch64__)
    d.dot_product = most >= IsaLevel::dotprod && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP);
#endif
    const dnnl_version_t* v = dnnl_version();
    d.fingerprint =
        concat("cpu ", cpu_model(),
               d.avx512_bf16   ? " avx512_bf16"
               : d.avx512      ? " avx512"
               : d.dot_product ? d.avx2 ? " avx_vnni" : " dotprod"
               : d.avx2        ? " avx2"
                               : " baseline",
               most == kNoLimit ? "" : " at most ", most == kNoLimit ? "" : enum_names(IsaLevel{})[size_t(most)],
               " oneDNN ", v->major, '.', v->minor, '.', v->patch, " temper ", version());
    return d;
  }();
  return device;
}

std::vector<Layout> useful_layouts(const Dims& dims, const Device& device) {
  if (!layout_fits(dims, Layout::channels_last)) return {Layout::plain};
  return {device.avx512 ? Layout::blocked16 : Layout::blocked8, Layout::channels_last, Layout::plain};
}

}  // namespace temper
