// SPDX-License-Identifier: Apache-2.0
// fuse_epilogues: a pointwise node that is the one user of a convolution or matrix product (any op with an epilogue)
// and keeps its shape is appended to the epilogue; its other inputs become inputs of the op.
//
// There can be no cycle: an input that depended on the op in another way would be its second user. Where two ops could
// take the node (a residual sum of two convolutions), one that alone reads its first input does: it may run in a chain
// with what gives that (chain_convs), which the sum's other tensor then joins. Of two such ones the later does.
//
// A program that stands behind a convolution's reshapes and transposes, as gelu does where an exporter turns an image
// into tokens, is first moved before them: it works on each element by itself. So is the sum of an image with what a
// product of tokens gives, as at the end of a block of ConvNeXt: the image is turned into tokens instead.
//
// fuse_sums: the same of residual sums and whatever else reads two tensors, alone. Behind lower_precision a program of
// one may be a cast to f32, which a normalisation does as it reads: in the epilogue it would double what is stored.
#include <algorithm>

#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"
#include "passes/support/images.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

// The value that a node shows in another order or shape; invalid where the node computes.
ValueId moved_by(const Node& node) {
  return node.inputs.size() == 1 && (node.op.is<ops::Reshape>() || node.op.is<ops::Transpose>()) ? node.inputs[0]
                                                                                                 : ValueId{};
}

// What shows `id` before a view of that kind: the value that `id` is such a view of, or a node that turns it back.
ValueId turned_back(Graph& graph, ValueId id, const Node& view) {
  const Shape& shape = graph.type(view.inputs[0]).shape;
  const Node* producer = graph.producer(id);
  if (producer && producer->op == view.op && moved_by(*producer).valid() &&
      graph.type(producer->inputs[0]).shape == shape)
    return producer->inputs[0];
  const std::string name = concat(graph.value(id).name, ".turned");
  if (const auto* op = view.op.get_if<ops::Transpose>()) {
    ops::Transpose back{op->perm};
    for (size_t i = 0; i < op->perm.size(); ++i) back.perm[size_t(op->perm[i])] = int64_t(i);
    return graph.add_single(std::move(back), {id}, name);
  }
  ops::Reshape back;
  back.shape = shape;
  return graph.add_single(std::move(back), {id}, name);
}

bool move_before_views(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const ValueId output = node.outputs[0];
  if (graph.value(output).users.empty() && !graph.is_output(output)) return false;
  const Shape shape = graph.type(output).shape;
  BoundProgram bound{node.op.get<ops::Pointwise>().program, node.inputs};
  tidy(graph, bound);
  for (ValueId input : bound.inputs)
    if (graph.type(input).shape != shape) return false;
  for (size_t slot = 0; slot < bound.inputs.size(); ++slot) {
    ValueId from = bound.inputs[slot];
    std::vector<Node> views;  // the last first
    for (const Node* before = graph.producer(from); before && moved_by(*before).valid() && graph.has_single_use(from);
         before = graph.producer(from)) {
      views.push_back(*before);
      from = moved_by(*before);
    }
    const Node* product = graph.producer(from);
    if (views.empty() || !product || !graph.has_single_use(from)) continue;
    const bool alone = bound.inputs.size() == 1;
    const auto is_of_images = [](const Node& view) {
      const auto* op = view.op.get_if<ops::Transpose>();
      return op && makes_image(op->perm);
    };
    if (alone ? !product->op.is<ops::Conv>()
              : !product->op.is<ops::MatMul>() || std::none_of(views.begin(), views.end(), is_of_images))
      continue;
    // An image is turned into tokens for nothing where it lies with its channels last, as convolutions leave it.
    const bool for_nothing = std::all_of(bound.inputs.begin(), bound.inputs.end(), [&](ValueId input) {
      return input == bound.inputs[slot] || is_image(graph, input);
    });
    if (!for_nothing) continue;
    std::vector<ValueId> inputs = bound.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == slot) inputs[i] = from;
      else
        for (const Node& view : views) inputs[i] = turned_back(graph, inputs[i], view);
    }
    ValueId result = graph.add_single(ops::Pointwise{std::move(bound.program)}, std::move(inputs), node.name);
    for (size_t i = views.size(); i-- > 1;) result = graph.add_single(views[i].op, {result}, views[i].name);
    graph.rewrite(output, views[0].op, {result}, views[0].name);
    return true;
  }
  return false;
}

class EpilogueFuser {
 public:
  // `of_two`: only programs that read another tensor of their shape.
  EpilogueFuser(Graph& graph, const BuildTime& time, bool of_two = false)
      : graph_(graph), time_(time), of_two_(of_two) {
    const int32_t count = graph.node_count();
    for (int32_t n = 0; n < count; ++n) position_.push_back(n);
  }

  bool run() {
    bool changed = false;
    const int32_t count = graph_.node_count();
    for (int32_t n = 0; n < count; ++n) {
      time_.check_at(n);
      if (graph_.node({n}).op.is<ops::Pointwise>()) changed |= visit({n});
    }
    return changed;
  }

 private:
  Graph& graph_;
  const BuildTime& time_;
  const bool of_two_;
  std::vector<int32_t>
      position_;  // by node: its place in the order of execution; new nodes stand at the end of the array

  bool may_take(ValueId input, NodeId user, const Shape& shape) const {
    const Node* producer = graph_.producer(input);
    if (!producer || !epilogue_of(producer->op) || producer->outputs.size() != 1) return false;
    const auto& users = graph_.value(input).users;
    return !graph_.is_output(input) && graph_.type(input).shape == shape &&
           std::all_of(users.begin(), users.end(), [&](NodeId other) { return other == user; });
  }

  bool visit(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId output = node.outputs[0];
    if (graph_.value(output).users.empty() && !graph_.is_output(output)) return false;
    const Shape shape = graph_.type(output).shape;
    BoundProgram bound{node.op.get<ops::Pointwise>().program, node.inputs};
    tidy(graph_, bound);
    int slot = -1;
    const auto rank = [&](size_t i) {
      const Node& producer = *graph_.producer(bound.inputs[i]);
      return std::pair(graph_.has_single_use(producer.inputs[0]),
                       position_.at(size_t(graph_.value(bound.inputs[i]).producer.index)));
    };
    for (size_t i = 0; i < bound.inputs.size(); ++i)
      if (may_take(bound.inputs[i], id, shape) && (slot < 0 || rank(i) > rank(size_t(slot)))) slot = int(i);
    if (slot < 0) return false;
    const auto full =
        std::ranges::count_if(bound.inputs, [&](ValueId input) { return graph_.type(input).shape == shape; });
    if (of_two_ && full < 2) return false;

    const Node taker = *graph_.producer(bound.inputs[size_t(slot)]);
    const Program& epilogue = *epilogue_of(taker.op);
    const size_t own =
        taker.inputs.size() - size_t(epilogue.inputs - 1);  // inputs that are the op's, not its epilogue's
    if (bound.inputs.size() + size_t(epilogue.inputs) > size_t(kMaxProgramInputs) ||
        bound.program.steps.size() + epilogue.steps.size() > kMaxProgramSteps)
      return false;

    // splice gives the consumer's inputs, then the producer's; an epilogue wants its own first.
    const int others = bound.program.inputs - 1;
    std::vector<int> order;
    order.reserve(size_t(others) + size_t(epilogue.inputs));
    for (int i = 0; i < others; ++i) order.push_back(epilogue.inputs + i);
    for (int i = 0; i < epilogue.inputs; ++i) order.push_back(i);
    BoundProgram fused{remap_inputs(splice(epilogue, bound.program, slot), order, others + epilogue.inputs),
                       {ValueId{}}};
    fused.fixed = 1;
    fused.accumulator = accumulator_dtype(graph_, taker);
    fused.inputs.insert(fused.inputs.end(), taker.inputs.begin() + int64_t(own), taker.inputs.end());
    for (size_t i = 0; i < bound.inputs.size(); ++i)
      if (int(i) != slot) fused.inputs.push_back(bound.inputs[i]);
    for (size_t i = 1; i < fused.inputs.size(); ++i)
      if (broadcast_shapes(shape, graph_.type(fused.inputs[i]).shape) != shape) return false;
    tidy(graph_, fused);

    Op op = taker.op;
    *epilogue_of(op) = std::move(fused.program);
    std::vector<ValueId> inputs(taker.inputs.begin(), taker.inputs.begin() + int64_t(own));
    inputs.insert(inputs.end(), fused.inputs.begin() + 1, fused.inputs.end());
    graph_.rewrite(output, std::move(op), std::move(inputs), taker.name);
    position_.resize(size_t(graph_.node_count()), position_[size_t(id.index)]);
    return true;
  }
};

}  // namespace

bool fuse_epilogues(Graph& graph, const PassOptions& options) {
  const bool fused = EpilogueFuser(graph, options.time).run();
  bool moved = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (graph.node({n}).op.is<ops::Pointwise>()) moved |= move_before_views(graph, {n});
  }
  if (!moved) return fused;
  graph.compact();
  EpilogueFuser(graph, options.time).run();
  return true;
}

bool fuse_sums(Graph& graph, const PassOptions& options) { return EpilogueFuser(graph, options.time, true).run(); }

}  // namespace temper
