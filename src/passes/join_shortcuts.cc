// SPDX-License-Identifier: Apache-2.0
// join_shortcuts: a block's projection goes to memory only to be added behind the block's last convolution. One kernel
// multiplies both and adds the one result to the other while it is in registers. That is exact: each keeps its epilogue
// and with it the dtype that its result is rounded to. Not where something else reads the projection, which is then
// needed in memory, and not where it broadcasts, which would be computed for each of the elements it is read at.
#include "passes/join_shortcuts.h"

#include "graph/ops/conv.h"
#include "graph/ops/fused.h"

namespace temper {

namespace {

// The convolution that gives input `at` of `node`, a convolution, where that is a shortcut.
const Node* shortcut_of(const Graph& graph, const Node& node, size_t at) {
  const ValueId read = node.inputs[at];
  const Node* producer = graph.producer(read);
  const auto* shortcut = producer ? producer->op.get_if<ops::Conv>() : nullptr;
  if (!shortcut || shortcut->tf32 != node.op.get<ops::Conv>().tf32 || !graph.has_single_use(read) ||
      graph.type(read).shape != graph.type(node.outputs[0]).shape)
    return nullptr;
  return producer;
}

bool join(Graph& graph, const Node& node, const FusionTaken& taken) {
  for (size_t at = 2; at < node.inputs.size(); ++at) {
    const Node* shortcut = shortcut_of(graph, node, at);
    if (!shortcut) continue;
    std::vector<ValueId> inputs = node.inputs;
    inputs.erase(inputs.begin() + int64_t(at));
    const ops::ShortcutConv both{node.op.get<ops::Conv>(), int64_t(inputs.size()), int64_t(at),
                                 shortcut->op.get<ops::Conv>()};
    inputs.insert(inputs.end(), shortcut->inputs.begin(), shortcut->inputs.end());
    if (!taken(graph, both, inputs)) continue;
    graph.rewrite(node.outputs[0], both, std::move(inputs), concat(node.name, " + ", shortcut->name));
    return true;
  }
  return false;
}

}  // namespace

bool join_shortcuts(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node node = graph.node({n});
    if (node.op.is<ops::Conv>() && join(graph, node, taken)) changed = true;
  }
  return changed;
}

}  // namespace temper
