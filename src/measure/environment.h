// SPDX-License-Identifier: Apache-2.0
// The machine that a measurement was made on, and what disturbed it. It goes into every result.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/load_watch.h"

namespace temper {

// Absent values could not be read on this machine. Sizes are bytes.
struct Environment {
  std::string time;  // start, ISO 8601, UTC: "2026-05-01T12:30:00Z"
  std::string version, revision, compiler;
  std::string onednn_version, onednn_isa;
  std::string os, kernel;
  std::string cpu_model;
  std::vector<std::string> cpu_features;  // of the vector and matrix extensions: "avx2", "avx512_vnni", "asimddp", ...
  int logical_cores = 0;                  // online
  int allowed_cores = 0;                  // by affinity
  std::optional<int> physical_cores;      // among the allowed ones; less than allowed_cores with SMT
  std::optional<double> cgroup_cores;     // quota of the control group, in cores
  std::optional<int64_t> l2_bytes, l3_bytes;  // of the first allowed core
  std::optional<int64_t> memory_bytes, memory_available_bytes, cgroup_memory_bytes;
  std::string governor;  // empty: not readable, as in most virtual machines
  int threads = 0;       // that the measured code used
  // EnvironmentSampler fills these in, over the measurement:
  std::optional<double> clock_mhz_before, clock_mhz_after;  // measured on one core, see core_clock_mhz
  std::optional<double> temperature_before_c, temperature_after_c;
  std::optional<int64_t> throttle_events;  // counted by the kernel, Intel only
  std::optional<double> load_by_others;    // cores that others used (hypervisor included), mean over the measurement
};

// Everything that does not change while measuring. `root` stands before /proc and /sys paths (tests).
Environment read_environment(int threads, const std::string& root = "");

// Notes the state at construction; `finish` fills in what changed since.
class EnvironmentSampler {
 public:
  EnvironmentSampler(int threads, std::string root = "");
  EnvironmentSampler(const EnvironmentSampler&) = delete;
  Environment finish() const;

 private:
  std::string root_;
  Environment start_;
  HostLoad load_;
  LoadWatch watch_;
  std::optional<int64_t> throttles_;
};

// Clock of the calling core in MHz from a chain of dependent additions, one per cycle: in virtual machines the kernel's
// figure is a constant. The best of several bursts of 0.1 ms, since an interruption can only make one look slower.
double core_clock_mhz();

// Least of the allowed cores and the control group's quota, at least 1: how many threads can always run at a time. Of a
// quota of 2.5 cores that is 2: a third thread would be stopped in mid-run, and the others would wait for it.
int usable_cores(const Environment& environment);

std::string time_now_utc();
std::optional<int64_t> peak_resident_bytes();  // VmHWM
std::optional<int64_t> resident_bytes();       // VmRSS
// Sets the peak to what is resident now; false where the kernel does not let us.
bool reset_peak_resident();

}  // namespace temper
