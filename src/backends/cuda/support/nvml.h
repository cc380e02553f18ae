// SPDX-License-Identifier: Apache-2.0
// Clocks, power and temperature of a GPU as the driver's management library (NVML) reads them.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/support/library.h"

namespace temper::cuda {

// The state of a GPU at this moment. Members are empty if the GPU does not report them.
struct GpuState {
  std::optional<int> clock_mhz, memory_clock_mhz, highest_clock_mhz, highest_memory_clock_mhz, celsius;
  std::optional<double> watts, limit_watts;  // watts: a mean of about a second on most GPUs
  std::optional<uint64_t> millijoules;       // since the driver was loaded; it moves by steps of 20 to 100 ms
  std::vector<std::string> throttled;        // why the clocks are held down: "power limit", "temperature", ...
};

class Nvml {
 public:
  // Throws Error{unsupported} where the library is missing, Error{machine} where it does not start.
  explicit Nvml(const LibrarySearch& search);
  ~Nvml();
  std::string driver_version() const;  // "580.95.05"
  const std::string& path() const;
  // By the bus id that the CUDA driver gives (GpuInfo::pci_bus_id). Throws Error{machine} for a GPU that NVML does not
  // know.
  GpuState state(const std::string& pci_bus_id) const;

 private:
  struct Api;
  std::unique_ptr<Api> api_;
};

}  // namespace temper::cuda
