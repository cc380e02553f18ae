// SPDX-License-Identifier: Apache-2.0
// temper doctor: shows what Temper finds on this machine, and what is missing.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "backends/cpu/onednn_threads.h"
#include "backends/cuda/support/inventory.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "bench/results.h"
#include "bench/table.h"
#include "cli/cpu_precisions.h"
#include "cli/model.h"
#include "cli/terminal.h"
#include "measure/environment.h"

namespace temper::cli {

namespace {

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

std::string device_name(const cuda::GpuInfo& gpu) { return concat("cuda:", gpu.ordinal); }

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// For which GPUs `temper build` can make plans, and what repairs the others. A plan needs the driver and a compiler for
// the GPU; cuDNN and cuBLASLt only add candidates.
void add_gpu_plans(std::vector<Finding>& findings, const cuda::Inventory& inventory,
                   const std::vector<std::string>& listed) {
  std::string ready, without;
  for (const cuda::LibraryFinding& library : inventory.libraries)
    if (library.version.empty() && (library.name == "cuBLASLt" || library.name == "cuDNN"))
      without += concat(without.empty() ? "" : " and ", library.name);
  for (size_t i = 0; i < inventory.gpus.size(); ++i)
    if (inventory.why_no_plans[i].empty()) ready += concat(ready.empty() ? "" : ", ", device_name(inventory.gpus[i]));
  if (!ready.empty()) {
    const std::string first = ready.substr(0, ready.find(','));
    findings.push_back(
        {"GPU plans",
         concat("can be built for ", ready, ": temper build MODEL -o PLAN --device ", first,
                without.empty() ? "" : concat("; without ", without, ", with Temper's own kernels alone"))});
  }
  for (size_t i = 0; i < inventory.gpus.size(); ++i)
    if (const std::string& why = inventory.why_no_plans[i]; !why.empty())
      findings.push_back(
          {"GPU plans",
           concat("cannot be built for ", device_name(inventory.gpus[i]), " (", inventory.gpus[i].name, "): ", why),
           true});
  if (!inventory.gpus.empty()) return;
  // The driver is the first of the libraries; its problem says what to do.
  findings.push_back({"GPU plans",
                      listed.empty()
                          ? "cannot be built: there is no NVIDIA GPU, or no driver for it; --device cpu works"
                          : concat("cannot be built: ", joined(listed),
                                   " is present, but its driver cannot be used: ", inventory.libraries.at(0).problem),
                      true});
}

void add_gpus(std::vector<Finding>& findings, const cuda::Inventory& inventory) {
  const std::vector<std::string> listed = nvidia_gpus();
  for (size_t i = 0; i < inventory.gpus.size(); ++i) {
    const cuda::GpuInfo& gpu = inventory.gpus[i];
    std::string state =
        concat(gpu.name, ", compute capability ", gpu.major, '.', gpu.minor, ", ", gpu.sms, " multiprocessors, ",
               format_bytes(double(gpu.memory_bytes)), ", L2 ", format_bytes(double(gpu.l2_bytes)));
    std::string throttled;
    if (const auto& now = inventory.states[i]) {
      auto of = [](const std::optional<int>& value) { return value ? concat(*value) : std::string("?"); };
      state += concat(", clocks ", of(now->clock_mhz), " of ", of(now->highest_clock_mhz), " MHz, memory ",
                      of(now->memory_clock_mhz), " of ", of(now->highest_memory_clock_mhz), " MHz, ", of(now->celsius),
                      " degrees C");
      if (now->watts && now->limit_watts)
        state += concat(", ", format_number(*now->watts, 3), " of ", format_number(*now->limit_watts, 3), " W");
      for (const std::string& reason : now->throttled) throttled += (throttled.empty() ? "" : ", ") + reason;
    }
    findings.push_back({concat("GPU ", i), state});
    if (!throttled.empty()) findings.push_back({concat("GPU ", i, " clocks"), "held down by: " + throttled, true});
  }
  add_gpu_plans(findings, inventory, listed);
  for (const cuda::LibraryFinding& library : inventory.libraries) {
    std::string state = library.problem;
    if (!library.version.empty()) state = concat(library.version, ", ", library.path, state.empty() ? "" : "; ", state);
    findings.push_back({library.name, state, !library.problem.empty()});
  }
}

std::vector<Finding> examine(const Environment& e, const cuda::Inventory& inventory) {
  std::vector<Finding> findings;
  auto size = [](const std::optional<int64_t>& bytes) {
    return bytes ? format_bytes(double(*bytes)) : std::string("unknown");
  };
  findings.push_back({"temper", concat(e.version, " (", e.revision, "), ", e.compiler)});
  findings.push_back({"system", concat(e.os.empty() ? "unknown" : e.os, ", ", e.kernel)});
  findings.push_back({"CPU", e.cpu_model});
  findings.push_back({"vector units", e.cpu_features.empty() ? "none known" : joined(e.cpu_features)});
  std::string cores = concat(e.allowed_cores, " of ", e.logical_cores, " logical cores allowed");
  if (e.physical_cores) cores += concat(", on ", *e.physical_cores, " physical");
  if (e.cgroup_cores) cores += concat(", quota of the control group ", format_number(*e.cgroup_cores, 3));
  findings.push_back({"cores", cores});
  if (e.cgroup_cores && *e.cgroup_cores < e.allowed_cores)
    findings.push_back(
        {"quota", "threads above the quota are stopped in mid-run: use at most " + concat(usable_cores(e)) + " threads",
         true});
  findings.push_back(
      {"clock", concat(format_number(e.clock_mhz_before.value_or(0)), " MHz measured on one core, governor ",
                       e.governor.empty() ? "unknown" : e.governor)});
  findings.push_back({"caches", concat("L2 ", size(e.l2_bytes), " per core, L3 ", size(e.l3_bytes))});
  findings.push_back({"memory", concat(size(e.memory_bytes), ", ", size(e.memory_available_bytes), " available",
                                       e.cgroup_memory_bytes ? ", limited to " + size(e.cgroup_memory_bytes) : "")});
  const bool served = serve_dnnl_regions();
  findings.push_back({"oneDNN",
                      concat(e.onednn_version, ", uses ", e.onednn_isa,
                             served ? "; its loops run on Temper's threads"
                                    : "; its loops run on OpenMP's threads beside Temper's, and each wait for the "
                                      "other's: set GOMP_SPINCOUNT=1000, or use the oneDNN of the distribution"),
                      !served});
  for (Finding& finding : cpu_precisions(e.cpu_features)) findings.push_back(std::move(finding));
  try {
    const std::string folder = cache_folder();
    const auto space = std::filesystem::space(folder);
    const bool writable = access(folder.c_str(), W_OK) == 0;
    findings.push_back({"cache folder",
                        concat(folder, writable ? "" : " (not writable: timings are not kept)", ", ",
                               format_bytes(double(space.available)), " free"),
                        !writable});
  } catch (const Error& error) { findings.push_back({"cache folder", concat("none: ", error.what()), true}); }
  add_gpus(findings, inventory);
  return findings;
}

// What most people look for, in ten lines or so: what belongs together is one line, and of a machine without a GPU that
// alone. -v shows every finding.
std::vector<std::pair<std::string, std::string>> in_short(const std::vector<Finding>& findings, bool has_gpu) {
  const std::map<std::string, std::string> lines{
      {"vector units", "CPU"}, {"clock", "CPU"},       {"cores", "cores"},        {"quota", "cores"},
      {"caches", "memory"},    {"memory", "memory"},   {"cache folder", "cache"}, {"fp32", "precisions"},
      {"bf16", "precisions"},  {"int8", "precisions"}, {"fp16", "precisions"},    {"NVIDIA driver", "GPU libs"},
      {"NVML", "GPU libs"},    {"NVRTC", "GPU libs"},  {"cuBLASLt", "GPU libs"},  {"cuDNN", "GPU libs"}};
  std::vector<std::pair<std::string, std::string>> out;
  for (const Finding& f : findings) {
    const auto found = lines.find(f.what);
    const std::string name = found == lines.end() ? f.what : found->second;
    const bool is_library = name == "GPU libs";
    if (is_library && !has_gpu) continue;
    if (f.what == "vector units") continue;  // the precisions say what they mean
    std::string text = f.state;
    if (is_library) text = concat(f.what, " ", f.state.substr(0, f.state.find(f.lacking ? ';' : ',')));
    if (name == "precisions") text = concat(f.what, " ", f.state);
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& line) { return line.first == name; });
    if (same == out.end()) out.emplace_back(name, text);
    else same->second += concat("; ", text);
  }
  out.emplace_back("", "temper doctor -v shows every finding");
  return out;
}

}  // namespace

void add_doctor(Command& verb, Context& context) {
  auto folders = std::make_shared<std::vector<std::string>>();
  add_cuda_path(verb, *folders);
  verb.callback([&context, folders] {
    const Environment environment = EnvironmentSampler(usable_cores(read_environment(0))).finish();
    const cuda::Inventory inventory = cuda::take_inventory({*folders});
    const std::vector<Finding> findings = examine(environment, inventory);
    if (context.json) {
      nlohmann::ordered_json json;
      json["environment"] = nlohmann::ordered_json::parse(to_json(environment));
      json["findings"] = nlohmann::ordered_json::array();
      for (const Finding& f : findings)
        json["findings"].push_back({{"what", f.what}, {"state", f.state}, {"lacking", f.lacking}});
      json["gpus"] = nlohmann::ordered_json::array();
      for (size_t i = 0; i < inventory.gpus.size(); ++i) {
        const cuda::GpuInfo& gpu = inventory.gpus[i];
        json["gpus"].push_back({{"name", gpu.name},
                                {"device", device_name(gpu)},
                                {"why_no_plans", inventory.why_no_plans[i]},
                                {"compute_capability", concat(gpu.major, '.', gpu.minor)},
                                {"architecture", gpu.architecture()},
                                {"pci_bus_id", gpu.pci_bus_id},
                                {"multiprocessors", gpu.sms},
                                {"memory_bytes", gpu.memory_bytes},
                                {"l2_bytes", gpu.l2_bytes}});
      }
      json["libraries"] = nlohmann::ordered_json::array();
      for (const cuda::LibraryFinding& library : inventory.libraries)
        json["libraries"].push_back({{"name", library.name},
                                     {"version", library.version},
                                     {"path", library.path},
                                     {"problem", library.problem}});
      std::printf("%s\n", strict::dump(json, 2).c_str());
      return;
    }
    if (context.verbosity > 0) {
      for (const Finding& f : findings) {
        constexpr size_t kState = 22;  // its column
        const std::string head = concat(f.lacking ? "lacks  " : "has    ", f.what);
        print_text(f.state, kState, width_of(head) + 2 > kState ? head + "  " : head);
      }
      return;
    }
    for (const auto& [name, text] : in_short(findings, !inventory.gpus.empty())) print_line(name.c_str(), text);
  });
}

}  // namespace temper::cli
