// SPDX-License-Identifier: Apache-2.0
// The options of profiling a plan: profile prints the outcome, and explain reasons about it.
#pragma once
#include <string>
#include <vector>

#include "bench/profile_plan.h"
#include "cli/model.h"

namespace temper::cli {

struct ProfileFlags {
  int64_t batch = 0;  // 0: what the plan is tuned for
  std::string duration = "3s", timing_cache;
  std::vector<std::string> cuda_path, inputs;

  void add_to(Command& verb);  // --input --batch --duration --timing-cache --cuda-path
  ProfileSettings settings(ProgressLine& progress) const;
};

}  // namespace temper::cli
