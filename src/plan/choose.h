// SPDX-License-Identifier: Apache-2.0
// Which tactic, and in which layouts, for each node: the sum of times and of the reorders between neighbours is
// minimal.
#pragma once
#include <functional>

#include "plan/batch.h"
#include "plan/options.h"
#include "plan/plan.h"

namespace temper {

struct ChosenCandidate {
  const Tactic* tactic = nullptr;  // null: a view (plan/views.h), or a slice that is read where the whole lies: no step
  Config config;
  double ms = -1;
};

struct NodeChoice {
  Problem problem;  // of one slice
  ChosenCandidate chosen;
  std::vector<Candidate> losers;
};

struct SliceOf {      // how a node runs
  int64_t slice = 0;  // 0: the whole
  int64_t slices = 1;
  bool parallel = false;
};

std::vector<NodeChoice> choose_tactics(const Graph& graph, const BatchInfo& batch, const std::vector<SliceOf>& slices,
                                       const Backend& backend, const Device& device, const PlanOptions& options);

std::string candidate_text(const Config& config);  // as Candidate::config has it

// Calls `use` with the candidates of all problems of the graph, each once, that can be compiled ahead
// (Tactic::compile). What they refer to lives as long as the call.
void visit_compilable(const Graph& graph, const Backend& backend, const Device& device,
                      const std::function<void(const std::vector<CandidateRef>&)>& use);

}  // namespace temper
