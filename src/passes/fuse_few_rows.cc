// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_few_rows.h"

#include <algorithm>

#include "graph/ops/fused_decode.h"
#include "graph/ops/gather.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"

namespace temper {

namespace {

// Each of these would compute the normalisation again.
constexpr size_t kMostProducts = 3;

bool fuse_into_products(Graph& graph, NodeId id, const FusionTaken& taken) {
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

// Whether a program makes an index of 0 that lies within every axis: with that candidates are timed.
bool gives_an_index(const Program& program) {
  Tensor zero(DType::i64, {});
  zero.data<int64_t>()[0] = 0;
  const Tensor made = run_program(program, std::span(&zero, 1), {});
  return made.dtype() == DType::i64 && (made.data<int64_t>()[0] == 0 || made.data<int64_t>()[0] == -1);
}

// An index that a program makes of a tensor that is at hand, perhaps in another shape.
bool fuse_index(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node gather = graph.node(id);
  const ValueId indices = gather.inputs[1];
  const Node* reshape = graph.producer(indices);
  if (reshape && !reshape->op.is<ops::Reshape>()) reshape = nullptr;
  const ValueId made = reshape ? reshape->inputs[0] : indices;
  const Node* node = graph.producer(made);
  const auto* op = node ? node->op.get_if<ops::Pointwise>() : nullptr;
  if (!op || op->program.inputs != 1 || !graph.has_single_use(indices) || !graph.has_single_use(made)) return false;
  const TensorType &from = graph.type(node->inputs[0]), &to = graph.type(indices);
  if (from.dtype != DType::i64 || to.dtype != DType::i64 || element_count(from.dims()) != element_count(to.dims()) ||
      !gives_an_index(op->program))
    return false;
  const ops::ComputedGather computed{gather.op.get<ops::Gather>(), op->program};
  ValueId source = node->inputs[0];
  if (from.shape != to.shape) source = graph.add_single(ops::Reshape{to.shape}, {source}, graph.value(indices).name);
  std::vector<ValueId> inputs{gather.inputs[0], source};
  if (!taken(graph, computed, inputs)) return false;
  graph.rewrite(gather.outputs[0], computed, std::move(inputs), gather.name);
  return true;
}

// A normalisation that begins with rows of tables, as tokens and their positions have them.
bool fuse_tables(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node norm = graph.node(id);
  ops::GatheredNormalize op{norm.op.get<ops::FusedNormalize>(), 0};
  std::vector<ValueId> inputs = norm.inputs, indices;
  for (size_t i = 0; i < size_t(op.fused.prologue.inputs); ++i) {
    const Node* node = graph.producer(norm.inputs[i]);
    const auto* gather = node ? node->op.get_if<ops::Gather>() : nullptr;
    if (!gather || gather->kind != ops::GatherKind::axis || gather->axis != 0 || !graph.has_single_use(norm.inputs[i]))
      break;
    const TensorType &table = graph.type(node->inputs[0]), &index = graph.type(node->inputs[1]);
    if (table.rank() != 2 || index.dtype != DType::i64 ||
        ops::GatheredNormalize::row_shape(index.shape, table.shape) != graph.type(norm.outputs[0]).shape)
      break;
    inputs[i] = node->inputs[0];
    indices.push_back(node->inputs[1]);
    ++op.tables;
  }
  if (op.tables == 0) return false;
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  if (!taken(graph, op, inputs)) return false;
  std::vector<std::string> names;
  for (const ValueId value : norm.outputs) names.push_back(graph.value(value).name);
  const std::vector<ValueId> made = graph.add(op, std::move(inputs), norm.name, names);
  for (size_t i = 0; i < made.size(); ++i) {
    graph.replace(norm.outputs[i], made[i]);
    graph.swap_names(norm.outputs[i], made[i]);
  }
  return true;
}

// The append whose result only `reader` reads, beside outputs of the graph; null where there is none.
const Node* append_for(const Graph& graph, ValueId cache, NodeId reader) {
  const Node* node = graph.producer(cache);
  if (!node || !node->op.is<ops::Append>()) return nullptr;
  const auto& users = graph.value(cache).users;
  return users.size() == 1 && users[0] == reader ? node : nullptr;
}

// Whether `lengths` are one more than `held`.
bool one_more(const Graph& graph, ValueId lengths, ValueId held) {
  const Node* node = graph.producer(lengths);
  const auto* op = node ? node->op.get_if<ops::Pointwise>() : nullptr;
  if (!op || node->inputs != std::vector<ValueId>{held} || op->program.steps.size() != 2) return false;
  const Step &one = op->program.steps[0], &sum = op->program.steps[1];
  return one.op == Scalar::constant && one.dtype == DType::i64 && one.integer == 1 && sum.op == Scalar::add &&
         sum.dtype == DType::i64 && sum.args[0] == 0 && sum.args[1] == 1;
}

bool fuse_appends(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  if (node.inputs[1] == node.inputs[2]) return false;
  const Node *keys = append_for(graph, node.inputs[1], id), *values = append_for(graph, node.inputs[2], id);
  if (!keys || !values || keys->inputs[2] != values->inputs[2]) return false;
  std::vector<ValueId> inputs{node.inputs[0],    keys->inputs[0],   keys->inputs[1],
                              values->inputs[0], values->inputs[1], keys->inputs[2]};
  inputs.insert(inputs.end(), node.inputs.begin() + 3, node.inputs.end());
  ops::AppendingAttention op{node.op.get<ops::Attention>()};
  if (inputs.size() == ops::AppendingAttention::kOwnInputs + 2 && graph.type(keys->inputs[1]).shape[1] == 1 &&
      one_more(graph, inputs.back(), keys->inputs[2])) {
    op.behind_new = true;
    inputs.resize(ops::AppendingAttention::kOwnInputs + (inputs[ops::AppendingAttention::kOwnInputs].valid() ? 1 : 0));
  }
  const auto is_input = [&](ValueId value) { return std::ranges::find(graph.inputs(), value) != graph.inputs().end(); };
  op.given = is_input(keys->inputs[0]) && is_input(values->inputs[0]);
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
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    if (graph.node({n}).op.is<ops::Gather>()) changed |= gather_first(graph, {n}, taken);
  }
  count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    if (graph.value(node.outputs[0]).users.empty() && !graph.is_output(node.outputs[0])) continue;  // dead by now
    if (node.op.is<ops::FusedNormalize>())
      changed |= fuse_tables(graph, {n}, taken) || fuse_into_products(graph, {n}, taken);
    else if (node.op.is<ops::Attention>()) changed |= fuse_appends(graph, {n}, taken);
    else if (node.op.is<ops::Gather>()) changed |= fuse_index(graph, {n}, taken);
  }
  return changed;
}

}  // namespace temper
