// SPDX-License-Identifier: Apache-2.0
// Runs a plan file step by step: profile prints the outcome, and explain reasons about it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "base/progress.h"
#include "bench/profile.h"

namespace temper {

struct ProfileSettings {
  int64_t batch = 0;  // 0: what the plan is tuned for
  double seconds = 3;
  std::string timing_cache;                  // keeps the machine's peaks; "": the default one
  std::vector<std::string> library_folders;  // DeviceSettings'
  Progress progress;
  InputRequest inputs;  // random numbers for those that are not in it
};

struct ProfiledPlan {
  std::string path;
  std::shared_ptr<const Engine> engine;
  std::vector<Dims> shapes;
  Peaks peaks;
  Profile profile;
};
ProfiledPlan profile_plan(const std::string& path, const ProfileSettings& settings);
// The same of an engine that is loaded, on what was given; `name` is what messages and the JSON call it. The settings'
// inputs and library folders do not count.
ProfiledPlan profile_loaded(std::shared_ptr<const Engine> engine, const std::string& name,
                            const ProfileSettings& settings, const GivenInputs& given = {});
nlohmann::ordered_json json_of(const ProfiledPlan& plan);  // temper.profile/1

}  // namespace temper
