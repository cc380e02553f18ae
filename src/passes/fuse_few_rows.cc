// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_few_rows.h"

#include <algorithm>

#include "graph/ops/fused_decode.h"
#include "graph/ops/gather.h"

namespace temper {

namespace {

// Each of these would compute the normalisation again.
constexpr size_t kMostProducts = 3;

bool fuse_normalize(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node norm = graph.node(id);
  const auto op = norm.op.get<ops::FusedNormalize>();
  const ValueId rows = norm.outputs[0];
  const Users users = graph.value(rows).users;
  if (!op.prologue.is_identity() || op.gives_input || graph.is_output(rows) || users.empty() ||
      users.size() > kMostProducts)
    return false;
  const auto product_of = [&](NodeId user, std::vector<ValueId>& inputs) -> std::optional<ops::NormalizedMatMul> {
    const Node& node = graph.node(user);
    const auto* product = node.op.get_if<ops::MatMul>();
    const auto* blocked = node.op.get_if<ops::BlockedMatMul>();
    if ((!product && !blocked) || node.inputs[0] != rows ||
        std::count(node.inputs.begin(), node.inputs.end(), rows) != 1)
      return std::nullopt;
    inputs = norm.inputs;
    inputs.insert(inputs.end(), node.inputs.begin() + 1, node.inputs.end());
    if (product) return ops::NormalizedMatMul{op.normalize, op.epilogue, *product};
    return ops::NormalizedMatMul{op.normalize, op.epilogue, blocked->product(), blocked->block_rows,
                                 blocked->block_columns};
  };
  for (const NodeId user : users) {
    std::vector<ValueId> inputs;
    const auto product = product_of(user, inputs);
    if (!product || ops::row_dtype(graph.type(norm.inputs[0]).dtype) != DType::f32 ||
        graph.type(norm.inputs[0]).dtype == DType::f32 || !taken(graph, *product, inputs))
      return false;
  }
  for (const NodeId user : users) {
    std::vector<ValueId> inputs;
    const auto product = product_of(user, inputs);
    const Node node = graph.node(user);
    graph.rewrite(node.outputs[0], *product, std::move(inputs), node.name);
  }
  return true;
}

// Rows of which some are read: they are gathered before they are normalised, each by itself, and the normalisation
// stands before the product that reads them, as one into which it may go.
bool gather_first(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node gather = graph.node(id);
  const auto& op = gather.op.get<ops::Gather>();
  const Node* norm = graph.producer(gather.inputs[0]);
  if (op.kind != ops::GatherKind::nd || op.batch_dims != 1 || !norm || !norm->op.is<ops::FusedNormalize>() ||
      !graph.has_single_use(gather.inputs[0]))
    return false;
  auto fused = norm->op.get<ops::FusedNormalize>();
  const Dims x = graph.type(norm->inputs[0]).dims(), indices = graph.type(gather.inputs[1]).dims();
  if (!fused.prologue.is_identity() || fused.gives_input || fused.normalize.groups != 1 || x.size() != 3 ||
      indices.back() != 1 || fused.normalize.axes != std::vector<int64_t>{2})
    return false;
  std::vector<ValueId> inputs{{}};
  for (size_t i = 1; i < norm->inputs.size(); ++i) {
    inputs.push_back(norm->inputs[i]);
    if (graph.type(inputs.back()).rank() > 1) return false;  // of rows that others have
  }
  const std::string name = norm->name;
  const ValueId rows = norm->inputs[0];
  inputs[0] = graph.add_single(ops::Gather(op), {rows, gather.inputs[1]}, gather.name);
  fused.normalize.axes = {graph.type(inputs[0]).rank() - 1};
  if (!taken(graph, fused, inputs)) return false;
  graph.rewrite(gather.outputs[0], std::move(fused), std::move(inputs), name);
  return true;
}

// The append whose result only `reader` reads, beside outputs of the graph; null where there is none.
const Node* append_for(const Graph& graph, ValueId cache, NodeId reader) {
  const Node* node = graph.producer(cache);
  if (!node || !node->op.is<ops::Append>()) return nullptr;
  const auto& users = graph.value(cache).users;
  return users.size() == 1 && users[0] == reader ? node : nullptr;
}

bool fuse_appends(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  if (node.inputs[1] == node.inputs[2]) return false;
  const Node *keys = append_for(graph, node.inputs[1], id), *values = append_for(graph, node.inputs[2], id);
  if (!keys || !values || keys->inputs[2] != values->inputs[2]) return false;
  std::vector<ValueId> inputs{node.inputs[0],    keys->inputs[0],   keys->inputs[1],
                              values->inputs[0], values->inputs[1], keys->inputs[2]};
  inputs.insert(inputs.end(), node.inputs.begin() + 3, node.inputs.end());
  const ops::AppendingAttention op{node.op.get<ops::Attention>()};
  if (!taken(graph, op, inputs)) return false;
  const std::vector<ValueId> before{node.outputs[0], node.inputs[1], node.inputs[2]};
  std::vector<std::string> names;
  names.reserve(before.size());
  for (const ValueId value : before) names.push_back(graph.value(value).name);
  const std::vector<ValueId> made = graph.add(op, std::move(inputs), node.name, names);
  for (size_t i = 0; i < made.size(); ++i) {
    graph.replace(before[i], made[i]);
    graph.swap_names(before[i], made[i]);
  }
  return true;
}

}  // namespace

bool fuse_few_rows(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  bool changed = false;
  int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n)
    if (graph.node({n}).op.is<ops::Gather>()) changed |= gather_first(graph, {n}, taken);
  count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    if (graph.value(node.outputs[0]).users.empty() && !graph.is_output(node.outputs[0])) continue;  // dead by now
    if (node.op.is<ops::FusedNormalize>()) changed |= fuse_normalize(graph, {n}, taken);
    else if (node.op.is<ops::Attention>()) changed |= fuse_appends(graph, {n}, taken);
  }
  return changed;
}

}  // namespace temper
