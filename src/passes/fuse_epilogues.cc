// SPDX-License-Identifier: Apache-2.0
// fuse_epilogues: a pointwise node that is the one user of a convolution or matrix product (any op with an epilogue)
// and keeps its shape is appended to the epilogue; its other inputs become inputs of the op.
//
// There can be no cycle: an input that depended on the op in another way would be its second user. Where two ops could
// take the node (a residual sum of two convolutions), the later one does: the other result exists by then.
#include <algorithm>

#include "graph/ops/pointwise.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

class EpilogueFuser {
 public:
  explicit EpilogueFuser(Graph& graph) : graph_(graph) {
    const int32_t count = graph.node_count();
    for (int32_t n = 0; n < count; ++n) position_.push_back(n);
  }

  bool run() {
    bool changed = false;
    const int32_t count = graph_.node_count();
    for (int32_t n = 0; n < count; ++n)
      if (graph_.node({n}).op.is<ops::Pointwise>()) changed |= visit({n});
    return changed;
  }

 private:
  Graph& graph_;
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
    auto place = [&](size_t i) { return position_.at(size_t(graph_.value(bound.inputs[i]).producer.index)); };
    for (size_t i = 0; i < bound.inputs.size(); ++i)
      if (may_take(bound.inputs[i], id, shape) && (slot < 0 || place(i) > place(size_t(slot)))) slot = int(i);
    if (slot < 0) return false;

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

bool fuse_epilogues(Graph& graph, const PassOptions&) { return EpilogueFuser(graph).run(); }

}  // namespace temper
