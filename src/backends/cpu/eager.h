// SPDX-License-Identifier: Apache-2.0
// Nodes that run between plans, because the sizes of what they give are data, and the kernels of CPUs that compute
// them.
#pragma once
#include <functional>
#include <string>

#include "backends/tactic.h"

namespace temper {

// The CPU's way to compute a problem in plain layouts: the first tactic of its list that has one, which may be the
// reference; null where no tactic takes it.
struct PlainWay {
  const Tactic* tactic = nullptr;
  Config config;
};
PlainWay plain_way(const Problem& problem, const Device& cpu);

// As run_node (graph/graph.h) of this node, on tensors in the host's memory, but by kernels where there are some, and
// with what is the same in every run done before: patterns are compiled.
using RunEager = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
RunEager prepare_eager(const Op& op, std::string name, int threads);

}  // namespace temper
