// SPDX-License-Identifier: Apache-2.0
// Measures the CPU's power by its own counters (RAPL: Intel since Sandy Bridge, AMD since Zen), which Linux shows in
// /sys/class/powercap.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace temper {

class EnergyMeter {
 public:
  // Notes the counters. `root` stands before /sys paths (tests).
  explicit EnergyMeter(std::string root = "");
  // Watts of all packages together since construction, a mean: whoever worked there, and without memory and disks.
  // Nothing below 0.1 s, where the counters are not there (virtual machines) or are for root alone (most systems), and
  // after so long a time that one may have begun anew more than once.
  std::optional<double> watts() const;

 private:
  struct Package {
    std::string folder;
    double start_uj, range_uj;
  };
  std::string root_;
  double start_ms_;
  bool readable_ = true;
  std::vector<Package> packages_;
};

}  // namespace temper
