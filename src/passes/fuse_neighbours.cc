// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_neighbours.h"

#include <algorithm>

#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"

namespace temper {

namespace {

// The pointwise node of one input, of that input's shape, that makes `value` for `user` alone; null where there is
// none.
const Node* pointwise_for(const Graph& graph, ValueId value, NodeId user) {
  const Node* node = graph.producer(value);
  if (!node || !node->op.is<ops::Pointwise>() || node->inputs.size() != 1) return nullptr;
  const auto& users = graph.value(value).users;
  const bool alone =
      !graph.is_output(value) && std::all_of(users.begin(), users.end(), [&](NodeId u) { return u == user; });
  return alone && graph.type(node->inputs[0]).shape == graph.type(value).shape ? node : nullptr;
}

// The pointwise node of one input that alone reads `value`; null where there is none.
const Node* pointwise_behind(const Graph& graph, ValueId value) {
  if (!graph.has_single_use(value)) return nullptr;
  const Node& node = graph.node(graph.value(value).users[0]);
  return node.op.is<ops::Pointwise>() && node.inputs.size() == 1 ? &node : nullptr;
}

const Program& program_of(const Node& node) { return node.op.get<ops::Pointwise>().program; }

void take_pool(ops::FusedConv& fused, const ops::Pool& pool) {
  fused.pool_kernel = pool.kernel;
  fused.pool_strides = pool.strides;
  fused.pool_pads = pool.pads;
}

// The max pool that alone reads `value`, if fused_conv can say it; null where there is none.
const Node* max_pool_behind(const Graph& graph, ValueId value) {
  if (!graph.has_single_use(value)) return nullptr;
  const Node& node = graph.node(graph.value(value).users[0]);
  const auto* pool = node.op.get_if<ops::Pool>();
  if (!pool) return nullptr;
  ops::FusedConv said;
  take_pool(said, *pool);
  return said.pool() == *pool ? &node : nullptr;
}

// With all of its neighbours, or else with one of them.
bool fuse_conv(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  const Node* before = pointwise_for(graph, node.inputs[0], id);
  if (std::count(node.inputs.begin(), node.inputs.end(), node.inputs[0]) != 1) before = nullptr;
  const Node* behind = max_pool_behind(graph, node.outputs[0]);
  for (const auto& [first, last] : {std::pair(before, behind), std::pair(before, static_cast<const Node*>(nullptr)),
                                    std::pair(static_cast<const Node*>(nullptr), behind)}) {
    if (!first && !last) continue;
    ops::FusedConv fused{{}, node.op.get<ops::Conv>(), {}, {}, {}};
    std::vector<ValueId> inputs = node.inputs;
    ValueId output = node.outputs[0];
    if (first) {
      fused.prologue = program_of(*first);
      inputs[0] = first->inputs[0];
    }
    if (last) {
      take_pool(fused, last->op.get<ops::Pool>());
      output = last->outputs[0];
    }
    if (!taken(graph, fused, inputs)) continue;
    graph.rewrite(output, std::move(fused), std::move(inputs), node.name);
    return true;
  }
  return false;
}

bool fuse_reduce(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  if (node.inputs.size() != 1 || graph.type(node.inputs[0]).dtype != DType::f32) return false;
  ops::FusedReduce fused{{}, {}, node.op.get<ops::Reduce>()};
  std::vector<ValueId> inputs = node.inputs;
  ValueId output = node.outputs[0];
  if (const Node* before = pointwise_for(graph, node.inputs[0], id)) {
    fused.prologue = program_of(*before);
    inputs[0] = before->inputs[0];
  }
  if (const Node* behind = pointwise_behind(graph, output)) {
    fused.epilogue = program_of(*behind);
    output = behind->outputs[0];
  }
  if ((fused.prologue.is_identity() && fused.epilogue.is_identity()) || !taken(graph, fused, inputs)) return false;
  graph.rewrite(output, std::move(fused), std::move(inputs), node.name);
  return true;
}

}  // namespace

bool fuse_neighbours(Graph& graph, const FusionTaken& taken) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    const Node& node = graph.node({n});
    const ValueId output = node.outputs[0];
    if (graph.value(output).users.empty() && !graph.is_output(output)) continue;  // dead by now
    if (node.op.is<ops::Conv>()) changed |= fuse_conv(graph, {n}, taken);
    else if (node.op.is<ops::Reduce>()) changed |= fuse_reduce(graph, {n}, taken);
  }
  return changed;
}

}  // namespace temper
