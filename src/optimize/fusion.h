// SPDX-License-Identifier: Apache-2.0
// Which ops run in one kernel with their neighbours: what a backend's tactics take and, for convolutions, what is
// faster.
#pragma once
#include <functional>
#include <vector>

#include "base/progress.h"
#include "passes/pipeline.h"
#include "plan/options.h"
#include "plan/plan.h"
#include "tune/cache.h"

namespace temper {

// Tells what a tactic of the backend takes at these shapes.
FusionTaken taken_by(const Backend& backend, const Device& device, const Bindings& bindings);

// The convolutions of a graph that could run in chains.
struct Chains {
  std::vector<ConvPair> list;  // those of `graph`
  Graph graph;                 // with all of them; where it was decided before, with those that were faster
  bool decided = false;
};
// `graph` has concrete shapes, and gets its shortcuts joined (passes/join_shortcuts.h), as the graph of the chains has
// them. `passes` are the options of the shapes pipeline.
Chains find_chains(Graph& graph, const PassOptions& passes, const Backend& backend, const Device& device,
                   const TimingCache& cache);

// As plan_in_context, of the graph that find_chains left, in which those convolutions run in chains that are faster so.
// Both ways of each are timed in plans of all; then a plan with the faster ones is timed beside one with none. `cache`
// remembers the decision.
Plan plan_with_chains(const Graph& graph, const Chains& chains, const PassOptions& passes, const Backend& backend,
                      const Device& device, const PlanOptions& options, TimingCache& cache, const Progress& progress);

// The graph that `plan` was made of, node by node: `graph`, the engine's at the plan's shapes, with the fused rows,
// shortcuts and chains that the plan has. `passes` are those that the engine was built with.
Graph graph_of_plan(Graph graph, const Plan& plan, const PassOptions& passes, const Backend& backend,
                    const Device& device);

}  // namespace temper
