// SPDX-License-Identifier: Apache-2.0
// The CPUs that this one can stand for: one of each IsaLevel up to its own.
#pragma once
#include <algorithm>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"

namespace temper::testing {

struct CpuOfLevel {
  IsaLevel level;
  Isa isa;  // for set_isa()
  Device device;
};

// From the lowest to this CPU as it is. oneDNN knows of no level: it goes by the processor.
inline std::vector<CpuOfLevel> cpus_of_levels() {
  const Device own = cpu_device();
  std::vector<CpuOfLevel> list;
#if defined(__aarch64__)
  for (const bool has : {false, true}) {
    if (has && !own.dot_product) continue;
    list.push_back({has ? IsaLevel::dotprod : IsaLevel::base, Isa::base, own});
    list.back().device.dot_product = has;
  }
#else
  const std::pair<IsaLevel, bool Device::*> flags[] = {{IsaLevel::avx2, &Device::avx2},
                                                       {IsaLevel::avx_vnni, &Device::dot_product},
                                                       {IsaLevel::avx512, &Device::avx512},
                                                       {IsaLevel::avx512_vnni, &Device::avx512_vnni},
                                                       {IsaLevel::avx512_bf16, &Device::avx512_bf16},
                                                       {IsaLevel::amx, &Device::amx}};
  IsaLevel level = IsaLevel::base;
  const auto add = [&] {
    Device device = own;
    for (const auto& [of_flag, flag] : flags)
      if (of_flag > level) device.*flag = false;
    const Isa isa = level >= IsaLevel::avx512 ? Isa::avx512 : level >= IsaLevel::avx2 ? Isa::avx2 : Isa::base;
    list.push_back({level, std::min(isa, best_isa()), std::move(device)});
  };
  add();
  for (const auto& [of_flag, flag] : flags) {
    if (!(own.*flag)) continue;
    level = of_flag;
    add();
  }
#endif
  return list;
}

}  // namespace temper::testing
