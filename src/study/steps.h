// SPDX-License-Identifier: Apache-2.0
// Runs long work in steps, each saved when it is done, so that an interrupted run goes on where it stopped.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/table.h"

namespace temper {

class Steps {
 public:
  // Steps are files in `folder`. `key` holds everything that their results depend on: results of another key are not
  // used.
  Steps(std::string folder, const nlohmann::ordered_json& key, bool force = false);

  // Gives the step's former result, or what `work` gives now, saved. `holds` looks at a former result, whose files may
  // be gone.
  nlohmann::ordered_json run(const std::string& name, const std::function<nlohmann::ordered_json()>& work,
                             const std::function<bool(const nlohmann::ordered_json&)>& holds = {});

 private:
  std::string folder_, key_;
  bool force_;
};

// A table as a step keeps it.
nlohmann::ordered_json json_of(const Table& table);
Table table_of_json(const nlohmann::ordered_json& json);

}  // namespace temper
