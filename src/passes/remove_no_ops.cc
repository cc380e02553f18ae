// SPDX-License-Identifier: Apache-2.0
// remove_no_ops: nodes that give back their input (a slice of everything, a pad of nothing, a concat of one, ...), and
// reshapes of reshapes.
#include "graph/ops/reshape.h"
#include "passes/pass.h"

namespace temper {

bool remove_no_ops(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const Node& node = graph.node({n});
    if (node.outputs.size() != 1 || node.inputs.empty() || !node.inputs[0].valid() ||
        !is_no_op(node.op, graph.type(node.inputs[0]), node.inputs.size()))
      continue;
    const ValueId output = node.outputs[0];
    const bool is_reshape = node.op.is<ops::Reshape>();
    // Behind reshapes lies the value whose elements these are. Those that do not depend on data are one by now, so that
    // more than a few are not looked through.
    constexpr int kMany = 16;
    ValueId source = node.inputs[0];
    for (int i = 0; i < kMany; ++i) {
      const Node* before = graph.producer(source);
      if (!before || !before->op.is<ops::Reshape>() || !before->inputs[0].valid()) break;
      source = before->inputs[0];
      if (graph.type(source) == graph.type(output)) break;
    }
    if (graph.type(source) == graph.type(output)) {
      graph.replace(output, source);
      changed = true;
      continue;
    }
    if (is_reshape && source == node.inputs[0]) continue;
    // A target that depends on data has dimensions that only its own node can name.
    if (is_reshape && node.inputs.size() > 1) continue;
    ops::Reshape reshape;
    reshape.shape = graph.type(output).shape;
    graph.rewrite(output, reshape, {source}, std::string(node.name));
    changed = true;
  }
  return changed;
}

}  // namespace temper
