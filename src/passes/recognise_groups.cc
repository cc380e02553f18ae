// SPDX-License-Identifier: Apache-2.0
// recognise_groups: a reshape that cuts the channels of images into groups, a normalize of each group, and the reshape
// back are one normalize with groups, so that the channels stay where they are in any layout. Between normalize and the
// second reshape a program of no other tensor may stand, behind which it is moved: exporters write GroupNormalization
// as an InstanceNormalization whose scales are all 1 and whose shifts are all 0.
#include <algorithm>
#include <optional>

#include "graph/ops/normalize.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

// A pointwise node as a program of `value` alone, where its other inputs are constants of one number each.
std::optional<Program> program_of(const Graph& graph, const Node& node, ValueId value) {
  Program program = node.op.get<ops::Pointwise>().program;
  for (size_t i = node.inputs.size(); i-- > 0;) {
    if (node.inputs[i] == value) continue;
    const auto number = only_element(graph.constant(node.inputs[i]));
    if (!number) return std::nullopt;
    program = with_constant(program, int(i), graph.type(node.inputs[i]).dtype, *number);
  }
  program = remap_inputs(program, std::vector<int>(size_t(program.inputs), 0), 1);
  const DType dtype = graph.type(value).dtype;
  return simplify(program, std::span(&dtype, 1));
}

const Node* reshape_of(const Graph& graph, ValueId id) {
  const Node* node = graph.producer(id);
  return node && node->op.is<ops::Reshape>() && node->inputs.size() == 1 ? node : nullptr;
}

bool recognise_group(Graph& graph, NodeId id) {
  const Node behind = graph.node(id);
  if (behind.inputs.size() != 1) return false;
  const Shape shape = graph.type(behind.outputs[0]).shape;
  ValueId value = behind.inputs[0];
  const Node* node = graph.producer(value);
  std::optional<Program> program;
  if (node && node->op.is<ops::Pointwise>()) {
    if (!graph.has_single_use(value)) return false;
    for (ValueId input : node->inputs)
      if (const Node* maker = graph.producer(input); maker && maker->op.is<ops::Normalize>()) {
        if (graph.type(input) != graph.type(value)) return false;
        program = program_of(graph, *node, input);
        value = input;
        node = maker;
        break;
      }
    if (!program) return false;
  }
  const auto* old = node ? node->op.get_if<ops::Normalize>() : nullptr;
  if (!old || old->groups != 1 || !graph.has_single_use(value)) return false;
  const Node* before = reshape_of(graph, node->inputs[0]);
  if (!before || graph.type(before->inputs[0]).shape != shape || shape.size() < 3) return false;

  // [N, C, ...] as [N, groups, ...], normalised over all that follows.
  const Shape cut = graph.type(value).shape;
  if (cut.size() < 3 || cut[0] != shape[0] || !cut[1].is_constant() || !shape[1].is_constant()) return false;
  const int64_t groups = cut[1].value();
  if (groups < 1 || shape[1].value() % groups != 0 || old->axes.size() + 2 != cut.size() || old->axes[0] != 2)
    return false;
  ops::Normalize op = *old;
  op.groups = groups;
  op.axes.clear();
  for (size_t axis = 1; axis < shape.size(); ++axis) op.axes.push_back(int64_t(axis));
  const ValueId x = before->inputs[0];
  const std::string name = node->name;
  if (!program || program->is_identity()) {
    graph.rewrite(behind.outputs[0], op, {x}, name);
  } else {
    const ValueId normalized = graph.add(op, {x}, name, {graph.value(value).name}).at(0);
    graph.rewrite(behind.outputs[0], ops::Pointwise{*program}, {normalized}, concat(name, "/affine"));
  }
  return true;
}

}  // namespace

bool recognise_groups(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const Node& node = graph.node({n});
    const ValueId output = node.outputs[0];
    if (graph.value(output).users.empty() && !graph.is_output(output)) continue;
    if (node.op.is<ops::Reshape>()) changed |= recognise_group(graph, {n});
  }
  return changed;
}

}  // namespace temper
