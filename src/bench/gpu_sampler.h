// SPDX-License-Identifier: Apache-2.0
// Samples a GPU's clocks, power and temperature while something is measured on it.
#pragma once
#include <memory>
#include <optional>

#include "backends/tactic.h"
#include "bench/results.h"

namespace temper {

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
