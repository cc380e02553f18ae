// SPDX-License-Identifier: Apache-2.0
#include "passes/chain_convs.h"

#include <algorithm>

#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/window.h"

namespace temper {

namespace {

bool all_equal(const std::vector<int64_t>& values, int64_t to) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == to; });
}

bool of_one_tap(const Graph& graph, const Node& node) {
  const auto* conv = node.op.get_if<ops::Conv>();
  if (!conv || conv->group != 1 || conv->pad_mode != ops::PadMode::explicit_pads || !all_equal(conv->strides, 1) ||
      !all_equal(conv->pads, 0))
    return false;
  const Shape& weights = graph.type(node.inputs[1]).shape;
  return std::all_of(weights.begin() + 2, weights.end(), [](const Dim& dim) { return dim == Dim(1); });
}

}  // namespace

std::vector<ConvPair> chain_convs(Graph& graph, const FusionTaken& taken,
                                  const std::function<bool(const std::string& name)>& wanted, const BuildTime& time) {
  std::vector<ConvPair> made;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node node = graph.node({n});
    if (!of_one_tap(graph, node) || !graph.has_single_use(node.inputs[0]) ||
        std::count(node.inputs.begin(), node.inputs.end(), node.inputs[0]) != 1)
      continue;
    const Node* producer = graph.producer(node.inputs[0]);
    if (!producer || !producer->op.is<ops::Conv>()) continue;
    const Node before = *producer;
    const auto& first = before.op.get<ops::Conv>();
    const auto& second = node.op.get<ops::Conv>();
    const std::string name = concat(before.name, " + ", node.name);
    if (first.tf32 != second.tf32 || !wanted(name)) continue;
    const ops::ConvChain chain{first, int64_t(before.inputs.size()), second.epilogue};
    std::vector<ValueId> inputs = before.inputs;
    inputs.insert(inputs.end(), node.inputs.begin() + 1, node.inputs.end());
    if (!taken(graph, chain, inputs)) continue;
    graph.rewrite(node.outputs[0], chain, std::move(inputs), name);
    made.push_back({before.name, node.name, name});
  }
  return made;
}

}  // namespace temper
