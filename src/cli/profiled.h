// SPDX-License-Identifier: Apache-2.0
// Runs a plan file step by step: profile prints the outcome, and explain reasons about it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "bench/profile.h"
#include "cli/model.h"

namespace temper::cli {

struct ProfileFlags {
  int64_t batch = 0;  // 0: what the plan is tuned for
  std::string duration = "3s", timing_cache;
  std::vector<std::string> cuda_path;
};
void add_profile_flags(CLI::App& verb, ProfileFlags& flags);  // --batch --duration --timing-cache

struct ProfiledPlan {
  std::string path;
  std::shared_ptr<const Engine> engine;
  std::vector<Dims> shapes;
  Peaks peaks;
  Profile profile;
};
ProfiledPlan profile_plan(const std::string& path, const ProfileFlags& flags, Progress& progress);
nlohmann::ordered_json json_of(const ProfiledPlan& plan);  // temper.profile/1

}  // namespace temper::cli
