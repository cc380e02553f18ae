// SPDX-License-Identifier: Apache-2.0
// Samples a GPU's clocks, power and temperature while something is measured on it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backends/tactic.h"
#include "bench/results.h"

namespace temper {

// NVML's figures at one moment, in seconds of any steady clock.
struct PowerSample {
  double seconds = 0;
  std::optional<double> watts;
  std::optional<uint64_t> millijoules;
};
// The watts that a GPU drew: the mean between the first and the last step of its counter of energy; where it has none,
// or that moved less than twice, the median of the watts that it said, which are means of about a second themselves
// and so too few of a short run. Absent where it said neither.
std::optional<double> drawn_watts(std::span<const PowerSample> samples);

class GpuSampler {
 public:
  // Begins to ask NVML about the device's GPU, every 20 ms, on a thread of its own. Nothing for a device without one.
  explicit GpuSampler(const Device& device);
  ~GpuSampler();
  // Ends it. Absent for a device without a GPU; without NVML only the name is there, and `why` says so.
  std::optional<GpuRun> finish(std::string& why);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace temper
