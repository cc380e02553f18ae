// SPDX-License-Identifier: Apache-2.0
// Weights of few bits stay in the graph as nodes of their own through all portable passes. For a device whose kernels
// do not read them they become plain constants first of all, so that every other pass finds weights; for one that has
// such kernels they meet their products last, when these have all of their epilogues, and for each set of concrete
// shapes: a kernel may take few rows alone. Of a device that takes any number of them, time decides for each which
// kernel runs, and whether it reads the integers or floats that were made of them when the plan was built.
#include "passes/blocked_products.h"

#include <algorithm>

#include "graph/ops/blocked_matmul.h"

namespace temper {

namespace {

// The product with the node `weights` as its right operand, as one op; false where `node` is another use.
bool blocked(const Graph& graph, const Node& node, const Node& weights, ops::BlockedMatMul& op,
             std::vector<ValueId>& inputs) {
  const auto* product = node.op.get_if<ops::MatMul>();
  const ValueId floats = weights.outputs[0];
  if (!product || product->transpose_a || product->tf32 || node.inputs[1] != floats ||
      std::count(node.inputs.begin(), node.inputs.end(), floats) != 1 ||
      graph.type(node.inputs[0]).rank() > graph.type(node.outputs[0]).rank())
    return false;
  const auto& blocks = weights.op.get<ops::DequantizeBlocks>();
  op = {product->transpose_b, blocks.block_rows, blocks.block_columns, product->epilogue};
  inputs = {node.inputs[0], weights.inputs[0], weights.inputs[1],
            weights.inputs.size() > 2 ? weights.inputs[2] : ValueId{}};
  inputs.insert(inputs.end(), node.inputs.begin() + 2, node.inputs.end());
  return true;
}

bool all_constant(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return !id.valid() || graph.constant(id); });
}

void fold(Graph& graph, const Node& node) {
  std::vector<Tensor> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id.valid() ? *graph.constant(id) : Tensor());
  const ValueId constant =
      graph.add_constant(graph.value(node.outputs[0]).name, run_node(node.op, inputs, node.name).at(0));
  graph.replace(node.outputs[0], constant);
  graph.swap_names(node.outputs[0], constant);
}

// Calls f(node) for each node of weights in blocks that is used and constant.
template <class F>
bool each_weights(Graph& graph, const BuildTime& time, F&& f) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    if (!node.op.is<ops::DequantizeBlocks>() || !all_constant(graph, node)) continue;
    if (graph.value(node.outputs[0]).users.empty() && !graph.is_output(node.outputs[0])) continue;
    changed |= f(node);
  }
  return changed;
}

}  // namespace

bool fold_blocks(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  return each_weights(graph, time, [&](const Node& node) {
    const auto& users = graph.value(node.outputs[0]).users;
    const bool stays = !graph.is_output(node.outputs[0]) && std::all_of(users.begin(), users.end(), [&](NodeId user) {
      ops::BlockedMatMul op;
      std::vector<ValueId> inputs;
      return blocked(graph, graph.node(user), node, op, inputs) && taken(graph, op, inputs);
    });
    if (!stays) fold(graph, node);
    return !stays;
  });
}

bool fuse_blocks(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  return each_weights(graph, time, [&](const Node& node) {
    const Users users = graph.value(node.outputs[0]).users;
    for (NodeId user : users) {
      const Node product = graph.node(user);
      ops::BlockedMatMul op;
      std::vector<ValueId> inputs;
      if (blocked(graph, product, node, op, inputs) && taken(graph, op, inputs))
        graph.rewrite(product.outputs[0], std::move(op), std::move(inputs), product.name);
    }
    if (!graph.value(node.outputs[0]).users.empty() || graph.is_output(node.outputs[0])) fold(graph, node);
    return true;
  });
}

}  // namespace temper
