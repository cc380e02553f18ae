// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bench/results.h"
#include "bench/table.h"
#include "cli/verb.h"
#include "measure/environment.h"

namespace temper::cli {

namespace {

struct Finding {
  std::string what, state;
  bool lacking = false;
};

// The kernel driver lists its GPUs here; asking needs no CUDA library.
std::vector<std::string> nvidia_gpus() {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream information(gpu.path() / "information");
    for (std::string line; std::getline(information, line);)
      if (line.starts_with("Model:")) models.push_back(line.substr(line.find_first_not_of(" \t", 6)));
  }
  return models;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<Finding> examine(const Environment& e) {
  std::vector<Finding> findings;
  auto has = [&](std::string_view feature) {
    return std::find(e.cpu_features.begin(), e.cpu_features.end(), feature) != e.cpu_features.end();
  };
  auto size = [](const std::optional<int64_t>& bytes) { return bytes ? format_bytes(double(*bytes)) : std::string("unknown"); };
  findings.push_back({"temper", concat(e.version, " (", e.revision, "), ", e.compiler)});
  findings.push_back({"system", concat(e.os.empty() ? "unknown" : e.os, ", ", e.kernel)});
  findings.push_back({"CPU", e.cpu_model});
  findings.push_back({"vector units", e.cpu_features.empty() ? "none known" : joined(e.cpu_features)});
  std::string cores = concat(e.allowed_cores, " of ", e.logical_cores, " logical cores allowed");
  if (e.physical_cores) cores += concat(", on ", *e.physical_cores, " physical");
  if (e.cgroup_cores) cores += concat(", quota of the control group ", format_number(*e.cgroup_cores, 3));
  findings.push_back({"cores", cores});
  if (e.cgroup_cores && *e.cgroup_cores < e.allowed_cores)
    findings.push_back({"quota", "threads above the quota are stopped in mid-run: use at most " + concat(usable_cores(e)) + " threads",
                        true});
  findings.push_back({"clock", concat(format_number(e.clock_mhz_before.value_or(0)), " MHz measured on one core, governor ",
                                      e.governor.empty() ? "unknown" : e.governor)});
  findings.push_back({"caches", concat("L2 ", size(e.l2_bytes), " per core, L3 ", size(e.l3_bytes))});
  findings.push_back({"memory", concat(size(e.memory_bytes), ", ", size(e.memory_available_bytes), " available",
                                       e.cgroup_memory_bytes ? ", limited to " + size(e.cgroup_memory_bytes) : "")});
  findings.push_back({"oneDNN", concat(e.onednn_version, ", uses ", e.onednn_isa)});
  // Where the arithmetic is emulated, oneDNN computes but is slower than in fp32.
  findings.push_back({"fp32", "yes"});
  if (has("avx512_bf16") || has("amx_bf16")) findings.push_back({"bf16", has("amx_bf16") ? "yes, matrix unit (AMX)" : "yes (AVX-512 BF16)"});
  else findings.push_back({"bf16", "no arithmetic for it: slower than fp32 here", true});
  if (has("amx_int8")) findings.push_back({"int8", "yes, matrix unit (AMX)"});
  else if (has("avx512_vnni")) findings.push_back({"int8", "yes (AVX-512 VNNI)"});
  else if (has("avx_vnni")) findings.push_back({"int8", "yes (AVX-VNNI)"});
  else findings.push_back({"int8", "no dot-product instructions: little faster than fp32", true});
  if (!has("avx512_fp16") && !has("amx_fp16"))
    findings.push_back({"fp16", "no arithmetic for it: models stored in fp16 are computed in fp32", true});
  try {
    const std::string folder = cache_folder();
    const auto space = std::filesystem::space(folder);
    const bool writable = access(folder.c_str(), W_OK) == 0;
    findings.push_back({"cache folder", concat(folder, writable ? "" : " (not writable: timings are not kept)", ", ",
                                               format_bytes(double(space.available)), " free"), !writable});
  } catch (const Error& error) {
    findings.push_back({"cache folder", concat("none: ", error.what()), true});
  }
  const std::vector<std::string> gpus = nvidia_gpus();
  for (const std::string& gpu : gpus)
    findings.push_back({"GPU", gpu + ", present, but this build has no GPU backend: everything runs on the CPU", true});
  if (gpus.empty()) findings.push_back({"GPU", "none: no NVIDIA driver is loaded; everything runs on the CPU", true});
  return findings;
}

}  // namespace

void add_doctor(CLI::App& verb, Context& context) {
  verb.callback([&context] {
    const Environment environment = EnvironmentSampler(usable_cores(read_environment(0))).finish();
    const std::vector<Finding> findings = examine(environment);
    if (context.json) {
      nlohmann::ordered_json json;
      json["environment"] = nlohmann::ordered_json::parse(to_json(environment));
      json["findings"] = nlohmann::ordered_json::array();
      for (const Finding& f : findings) json["findings"].push_back({{"what", f.what}, {"state", f.state}, {"lacking", f.lacking}});
      std::printf("%s\n", json.dump(2).c_str());
      return;
    }
    Table table{{{"", false}, {"what", false}, {"state", false}}, {}};
    for (const Finding& f : findings) table.rows.push_back({f.lacking ? "lacks" : "has", f.what, f.state});
    std::fputs(terminal_table(table).c_str(), stdout);
  });
}

}  // namespace temper::cli
