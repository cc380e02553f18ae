// SPDX-License-Identifier: Apache-2.0
// Describes a plan file or an engine as JSON: `temper inspect --json`, and Engine.inspect() of Python.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/info.h"

namespace temper {

struct DescribeOptions {
  bool layers = false;  // the steps
  bool graph = false;   // the text of the optimised graph
  std::string why;      // a node: what was chosen for it, what lost and why
};
// Sizes of the file are null where there is none. Throws Error{usage} where `why` names no step.
nlohmann::json describe(const PlanFile& file, const DescribeOptions& options);

// The steps that compute the node of that name in every plan, at least one. Throws Error{usage} with similar names
// where there is none.
std::vector<std::pair<const Plan*, const PlanStep*>> steps_named(const PlanFile& file, const std::string& node);
// By time, then those without one, then those that were refused.
std::vector<Candidate> in_order(std::vector<Candidate> candidates);
// The steps that wrote those inputs of a concat that are in place, in their order.
std::vector<std::string> written_in_place(const Plan& plan, const PlanStep& step);
std::string layouts_of(const Config& config);  // "nhwc ohwi -> nhwc"

}  // namespace temper
