// SPDX-License-Identifier: Apache-2.0
// An inventory of GPUs, drivers and libraries that the GPU backend uses, for `temper doctor`. Nothing here throws: a
// missing library is a finding.
#pragma once
#include <optional>

#include "backends/cuda/support/driver.h"
#include "backends/cuda/support/nvml.h"

namespace temper::cuda {

struct LibraryFinding {
  std::string name;     // "NVRTC"
  std::string version;  // "13.0"; empty where it is missing
  std::string path;
  std::string problem;  // why it cannot be used, what for and what to do; empty: all is well
};

struct Inventory {
  std::vector<LibraryFinding> libraries;  // the driver first
  std::vector<GpuInfo> gpus;
  std::vector<std::optional<GpuState>> states;  // one for each GPU; empty where NVML is missing
  // For each GPU: why no plan can be built for it, and what repairs that; empty where one can.
  std::vector<std::string> why_no_plans;
};

Inventory take_inventory(const LibrarySearch& search);

}  // namespace temper::cuda
