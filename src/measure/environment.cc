// SPDX-License-Identifier: Apache-2.0
#include "measure/environment.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <dnnl.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "base/concat.h"
#include "base/parse.h"
#include "base/version.h"
#include "measure/clock.h"

namespace temper {

namespace {

// Files below /proc report a size of zero, so they are read as streams. Empty where there is no such file.
std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// "Model name : x" in a file of such lines; empty where there is none.
std::string field(const std::string& text, std::string_view key, char separator = ':') {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(separator);
    if (at != std::string::npos && trim(line.substr(0, at)) == key) return trim(line.substr(at + 1));
  }
  return "";
}

std::optional<int64_t> integer(std::string_view text) {
  const auto leading = parse_leading<int64_t>(text);
  return leading ? std::optional(leading->value) : std::nullopt;
}

// "32768 kB", "1024K", "32M": the units that the kernel prints.
std::optional<int64_t> size_in_bytes(const std::string& text) {
  const auto value = integer(text);
  if (!value) return std::nullopt;
  const auto unit = text.find_first_not_of("0123456789 ");
  if (unit == std::string::npos) return value;
  switch (text[unit]) {
    case 'k':
    case 'K': return *value << 10;
    case 'M': return *value << 20;
    case 'G': return *value << 30;
    default: return std::nullopt;
  }
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;  // machines with more than 1024 logical CPUs: the call fails and the list stays empty
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

std::string cpu_folder(const std::string& root, int cpu) {
  return concat(root, "/sys/devices/system/cpu/cpu", cpu, "/");
}

// The file of this process's control group, or of the root one inside a container. Version 2, then version 1.
std::string cgroup_file(const std::string& root, std::string_view v2, std::string_view v1) {
  const std::string groups = contents(root + "/proc/self/cgroup");
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::"))
      if (std::string text = contents(concat(root, "/sys/fs/cgroup", line.substr(3), "/", v2)); !text.empty())
        return text;
  if (std::string text = contents(concat(root, "/sys/fs/cgroup/", v2)); !text.empty()) return text;
  return contents(concat(root, "/sys/fs/cgroup/", v1));
}

std::optional<double> cgroup_cores(const std::string& root) {
  std::istringstream text(cgroup_file(root, "cpu.max", "cpu/cpu.cfs_quota_us"));
  std::string quota;
  double period = 0;
  text >> quota;
  const auto value = integer(quota);
  if (!value || *value <= 0) return std::nullopt;  // "max" or -1: no limit
  if (!(text >> period))
    period = double(integer(contents(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us")).value_or(100000));
  if (period <= 0) return std::nullopt;
  return double(*value) / period;
}

std::vector<std::string> vector_features(const std::string& cpuinfo) {
  static constexpr std::string_view interesting[] = {
      "sse4_2",   "avx",         "f16c",        "fma",         "avx2",     "avx_vnni", "avx512f",  "avx512bw",
      "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
      "asimd",    "asimdhp",     "asimddp",     "sve",         "sve2",     "i8mm",     "bf16"};
  std::string flags = field(cpuinfo, "flags");
  if (flags.empty()) flags = field(cpuinfo, "Features");
  std::istringstream words(flags);
  const std::set<std::string> have{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> result;
  for (std::string_view name : interesting)
    if (have.contains(std::string(name))) result.emplace_back(name);
  return result;
}

std::string onednn_isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return concat("code ", int(dnnl::get_effective_cpu_isa()));
  }
}

// Degrees Celsius of the hottest sensor that names a CPU.
std::optional<double> cpu_temperature(const std::string& root) {
  std::optional<double> hottest;
  auto take = [&](const std::string& path) {
    if (const auto milli = integer(contents(path))) hottest = std::max(hottest.value_or(-1e9), double(*milli) / 1000);
  };
  for (int i = 0; i < 16; ++i) {
    const std::string zone = concat(root, "/sys/class/thermal/thermal_zone", i, "/");
    const std::string type = trim(contents(zone + "type"));
    if (type == "x86_pkg_temp" || type.starts_with("cpu")) take(zone + "temp");
    const std::string monitor = concat(root, "/sys/class/hwmon/hwmon", i, "/");
    const std::string name = trim(contents(monitor + "name"));
    if (name == "k10temp" || name == "coretemp" || name == "zenpower") take(monitor + "temp1_input");
  }
  return hottest;
}

std::optional<int64_t> throttle_count(const std::string& root) {
  std::optional<int64_t> total;
  for (int cpu : allowed_cpus())
    if (const auto count = integer(contents(cpu_folder(root, cpu) + "thermal_throttle/core_throttle_count")))
      total = total.value_or(0) + *count;
  return total;
}

std::optional<int64_t> status_bytes(std::string_view key) {
  return size_in_bytes(field(contents("/proc/self/status"), key));
}

}  // namespace

double core_clock_mhz() {
  constexpr int kAdditions = 64, kRounds = 4000;
  double best = 0;
  for (int burst = 0; burst < 12; ++burst) {
    uint64_t sum = 1, step = uint64_t(burst) | 1;
    const double start = host_clock().now_ms();
    for (int round = 0; round < kRounds; ++round)
    // The barrier keeps the compiler from folding the additions. Register to register: some cores resolve additions of
    // constants while renaming, in no time at all.
#pragma GCC unroll 64
      for (int i = 0; i < kAdditions; ++i) {
        sum += step;
        asm volatile("" : "+r"(sum), "+r"(step));
      }
    const double ms = host_clock().now_ms() - start;
    if (ms > 0) best = std::max(best, std::round(double(kAdditions) * kRounds / ms / 1e3));
  }
  return best;
}

std::string time_now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Environment read_environment(int threads, const std::string& root) {
  Environment e;
  e.time = time_now_utc();
  e.version = version();
  e.revision = revision();
#if defined(__clang__)
  e.compiler = concat("clang ", __clang_version__);
#else
  e.compiler = concat("gcc ", __VERSION__);
#endif
  const dnnl_version_t* onednn = dnnl::version();
  e.onednn_version = concat(onednn->major, ".", onednn->minor, ".", onednn->patch);
  e.onednn_isa = onednn_isa_name();
  e.os = field(contents(root + "/etc/os-release"), "PRETTY_NAME", '=');
  if (e.os.size() >= 2 && e.os.front() == '"') e.os = e.os.substr(1, e.os.size() - 2);
  utsname kernel;
  if (uname(&kernel) == 0)
    e.kernel = concat(std::string_view(kernel.sysname), " ", std::string_view(kernel.release), " ",
                      std::string_view(kernel.machine));
  const std::string cpuinfo = contents(root + "/proc/cpuinfo");
  e.cpu_model = field(cpuinfo, "model name");
  // Kernels of aarch64 print numbers alone.
  if (const std::string part = field(cpuinfo, "CPU part"); e.cpu_model.empty() && !part.empty())
    e.cpu_model = concat("aarch64, implementer ", field(cpuinfo, "CPU implementer"), ", part ", part);
  if (e.cpu_model.empty()) e.cpu_model = "unknown";
  e.cpu_features = vector_features(cpuinfo);
  e.logical_cores = int(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const std::vector<int> allowed = allowed_cpus();
  e.allowed_cores = allowed.empty() ? e.logical_cores : int(allowed.size());
  std::set<std::string> siblings;
  for (int cpu : allowed)
    if (const std::string list = trim(contents(cpu_folder(root, cpu) + "topology/thread_siblings_list")); !list.empty())
      siblings.insert(list);
  if (!siblings.empty()) e.physical_cores = int(siblings.size());
  e.cgroup_cores = cgroup_cores(root);
  const int first = allowed.empty() ? 0 : allowed.front();
  for (int index = 0; index < 8; ++index) {
    const std::string cache = concat(cpu_folder(root, first), "cache/index", index, "/");
    const auto level = integer(contents(cache + "level"));
    if (level == 2) e.l2_bytes = size_in_bytes(trim(contents(cache + "size")));
    if (level == 3) e.l3_bytes = size_in_bytes(trim(contents(cache + "size")));
  }
  const std::string meminfo = contents(root + "/proc/meminfo");
  e.memory_bytes = size_in_bytes(field(meminfo, "MemTotal"));
  e.memory_available_bytes = size_in_bytes(field(meminfo, "MemAvailable"));
  // Version 1 prints a number near 2^63 where there is no limit.
  if (const auto limit = integer(cgroup_file(root, "memory.max", "memory/memory.limit_in_bytes"));
      limit && (!e.memory_bytes || *limit < *e.memory_bytes))
    e.cgroup_memory_bytes = limit;
  e.governor = trim(contents(cpu_folder(root, first) + "cpufreq/scaling_governor"));
  e.threads = threads;
  return e;
}

EnvironmentSampler::EnvironmentSampler(int threads, std::string root)
    : root_(std::move(root)), start_(read_environment(threads, root_)), load_(root_), watch_(load_) {
  start_.clock_mhz_before = core_clock_mhz();
  start_.temperature_before_c = cpu_temperature(root_);
  throttles_ = throttle_count(root_);
  watch_.start();
}

Environment EnvironmentSampler::finish() const {
  Environment e = start_;
  e.load_by_others = watch_.load();
  e.clock_mhz_after = core_clock_mhz();
  e.temperature_after_c = cpu_temperature(root_);
  if (const auto now = throttle_count(root_); now && throttles_) e.throttle_events = *now - *throttles_;
  return e;
}

int usable_cores(const Environment& environment) {
  int cores = environment.allowed_cores;
  if (environment.cgroup_cores) cores = std::min(cores, int(*environment.cgroup_cores));
  return std::max(cores, 1);
}

std::optional<int64_t> peak_resident_bytes() { return status_bytes("VmHWM"); }
std::optional<int64_t> resident_bytes() { return status_bytes("VmRSS"); }

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // proc(5): 5 resets the peak resident set size
  return bool(file);
}

}  // namespace temper
