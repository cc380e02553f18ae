// SPDX-License-Identifier: Apache-2.0
// Chooses segments by measuring: which stretches of the graph run on slices of the batch, how large, on how many
// chains.
#pragma once
#include <functional>

#include "base/progress.h"
#include "plan/batch.h"
#include "plan/options.h"
#include "plan/plan.h"

namespace temper {

// Node ranges between the places where a single value of the batch is all that lives on: the possible borders.
struct Group {
  int32_t first, last;
  bool sliceable;
};
std::vector<Group> find_groups(const Graph& graph, const BatchInfo& batch);

// Measures whole plans. `options` carries the times and the pack cache; its segments are replaced. Returns the fastest.
Plan search_segments(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                     const Progress& progress);

// The least time of a few runs of the plan on plausible data, in ms.
double time_plan(const Plan& plan, const Device& device, double best_ms,
                 std::vector<std::vector<double>>* step_ms = nullptr);

}  // namespace temper
