// SPDX-License-Identifier: Apache-2.0
// gather_channels: channels that change places between groups, as in ShuffleNet, become one gather by constant indices,
// and slices of it gathers of fewer channels. Exports split the axis in two, swap the two and join them again, which
// forces the plain layout on what stands around.
#include "graph/ops/gather.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"

namespace temper {

namespace {

struct Shuffle {
  ValueId x;
  std::vector<int64_t> order;  // of x's channels
};

// What the reshape at `node` gives is x with its channels in another order.
std::optional<Shuffle> shuffle_at(const Graph& graph, const Node& node) {
  const auto before = [&](ValueId id) { return graph.producer(id); };
  if (!node.op.is<ops::Reshape>() || node.inputs.size() != 1) return std::nullopt;
  const Node* const transpose = before(node.inputs[0]);
  if (!transpose || !transpose->op.is<ops::Transpose>()) return std::nullopt;
  const Node* const split = before(transpose->inputs[0]);
  if (!split || !split->op.is<ops::Reshape>() || split->inputs.size() != 1) return std::nullopt;

  const ValueId x = split->inputs[0];
  const Shape &whole = graph.type(x).shape, &parts = graph.type(split->outputs[0]).shape;
  if (whole.size() < 3 || parts.size() != whole.size() + 1 || graph.type(node.outputs[0]).shape != whole)
    return std::nullopt;
  // [N, groups, channels of a group, ...], of which the second and the third are swapped.
  const auto& perm = transpose->op.get<ops::Transpose>().perm;
  for (size_t axis = 0; axis < parts.size(); ++axis) {
    const bool swapped = axis == 1 || axis == 2;
    if (perm[axis] != int64_t(swapped ? 3 - axis : axis)) return std::nullopt;
    if (swapped ? !parts[axis].is_constant() : parts[axis] != whole[axis ? axis - 1 : 0]) return std::nullopt;
  }
  Shuffle out{x, {}};
  const int64_t groups = parts[1].value(), of_a_group = parts[2].value();
  for (int64_t channel = 0; channel < of_a_group; ++channel)
    for (int64_t group = 0; group < groups; ++group) out.order.push_back(group * of_a_group + channel);
  return out;
}

void gather(Graph& graph, ValueId output, const Shuffle& shuffle) {
  const std::string name = graph.producer(output)->name;
  ops::Gather op;
  op.axis = 1;
  const ValueId order =
      graph.add_constant(concat(name, ".order"), Tensor::of<int64_t>({int64_t(shuffle.order.size())}, shuffle.order));
  graph.rewrite(output, op, {shuffle.x, order}, name);
}

// The first channel that the slice takes, where it takes all of the other axes.
std::optional<int64_t> first_channel(const ops::Slice& op, const Shape& whole) {
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    if (op.steps[axis] != 1) return std::nullopt;
    if (axis != 1 && (op.starts[axis] != Dim(0) || op.sizes[axis] != whole[axis])) return std::nullopt;
  }
  if (!op.starts[1].is_constant() || !op.sizes[1].is_constant()) return std::nullopt;
  return op.starts[1].value();
}

}  // namespace

bool gather_channels(Graph& graph, const PassOptions& options) {
  bool changed = false;
  for (int32_t n = graph.node_count(); n-- > 0;) {
    options.time.check_at(n);
    const Node& node = graph.node({n});
    if (node.outputs.empty()) continue;
    const ValueId whole = node.outputs[0];
    const auto shuffle = shuffle_at(graph, node);
    if (!shuffle) continue;
    const Users users = graph.value(whole).users;
    for (NodeId user : users) {
      const auto* slice = graph.node(user).op.get_if<ops::Slice>();
      if (!slice || graph.node(user).inputs.size() != 1) continue;
      const auto first = first_channel(*slice, graph.type(whole).shape);
      if (!first) continue;
      const int64_t count = slice->sizes[1].value();
      Shuffle part{shuffle->x, {}};
      part.order.assign(shuffle->order.begin() + *first, shuffle->order.begin() + *first + count);
      gather(graph, graph.node(user).outputs[0], part);
    }
    gather(graph, whole, *shuffle);
    changed = true;
  }
  return changed;
}

}  // namespace temper
