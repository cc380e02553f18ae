// SPDX-License-Identifier: Apache-2.0
#include "cli/cpu_precisions.h"

#include <algorithm>
#include <string_view>

namespace temper::cli {

std::vector<Finding> cpu_precisions(const std::vector<std::string>& features) {
  const auto has = [&](std::string_view feature) {
    return std::find(features.begin(), features.end(), feature) != features.end();
  };
  std::vector<Finding> list{{"fp32", "yes"}};
  // Where the arithmetic is emulated, oneDNN computes but is slower than in fp32.
  if (has("avx512_bf16") || has("amx_bf16"))
    list.push_back({"bf16", has("amx_bf16") ? "yes, matrix unit (AMX)" : "yes (AVX-512 BF16)"});
  else list.push_back({"bf16", "no arithmetic for it: slower than fp32 here", true});
  if (has("amx_int8")) list.push_back({"int8", "yes, matrix unit (AMX)"});
  else if (has("avx512_vnni")) list.push_back({"int8", "yes (AVX-512 VNNI)"});
  else if (has("avx_vnni")) list.push_back({"int8", "yes (AVX-VNNI)"});
  else if (has("avx2")) list.push_back({"int8", "yes (AVX2 kernels)"});
  else if (has("asimddp")) list.push_back({"int8", "yes (dot product)"});
  else list.push_back({"int8", "no dot-product instructions: little faster than fp32", true});
  list.push_back({"fp16", "no kernels for it: models stored in fp16 are computed in fp32", true});
  return list;
}

}  // namespace temper::cli
