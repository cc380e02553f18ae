// SPDX-License-Identifier: Apache-2.0
// temper inspect for plans: steps, graph and decisions, read without the machine that the plan is for.
#pragma once
#include <string>

namespace temper::cli {

struct InspectPlanOptions {
  bool layers = false;  // a table of the steps
  bool graph = false;   // the optimised graph
  std::string why;      // a node: what was chosen for it, what lost and why
  bool json = false;    // all of it as JSON
};
// Prints what a plan file holds. Needs neither the machine nor the version that the plan is for; what only the same
// version can read is refused with that reason (Error{unsupported}).
void inspect_plan(const std::string& path, const InspectPlanOptions& options);

}  // namespace temper::cli
