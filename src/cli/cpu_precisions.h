// SPDX-License-Identifier: Apache-2.0
// Says which precisions kernels compute in on a CPU of given instruction sets, and by what.
#pragma once
#include <string>
#include <vector>

namespace temper::cli {

struct Finding {
  std::string what, state;
  bool lacking = false;
};

// `features` as /proc/cpuinfo names them. It says what kernels use, not what the CPU has beside that.
std::vector<Finding> cpu_precisions(const std::vector<std::string>& features);

}  // namespace temper::cli
