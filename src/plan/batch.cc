// SPDX-License-Identifier: Apache-2.0
#include "plan/batch.h"

#include "graph/batched_node.h"

namespace temper {

namespace {

// A node of a graph with concrete shapes, as its op sees it when it says whether it may be sliced.
class NodeOfGraph final : public BatchedNode {
 public:
  NodeOfGraph(const Graph& graph, const Node& node, const std::vector<char>& batched)
      : graph_(graph), node_(node), batched_(batched) {}
  size_t inputs() const override { return node_.inputs.size(); }
  size_t outputs() const override { return node_.outputs.size(); }
  bool has(size_t input) const override { return input < node_.inputs.size() && node_.inputs[input].valid(); }
  bool is_batched(size_t input) const override { return has(input) && batched_[size_t(node_.inputs[input].index)]; }
  const Shape& shape(size_t input) const override { return graph_.type(node_.inputs[input]).shape; }
  const Shape& out() const override { return graph_.type(node_.outputs[0]).shape; }

 private:
  const Graph& graph_;
  const Node& node_;
  const std::vector<char>& batched_;
};

}  // namespace

Op slice_op(const Op& op, int64_t slice) {
  Op result = op;
  take_slice(result, slice);
  return result;
}

TensorType slice_type(const TensorType& type, int64_t slice) {
  TensorType result = type;
  result.shape[0] = slice;
  return result;
}

BatchInfo analyze_batch(const Graph& graph) {
  BatchInfo info;
  info.value_batched.assign(size_t(graph.value_count()), 0);
  info.node_sliceable.assign(size_t(graph.node_count()), 0);
  for (ValueId id : graph.inputs()) {
    const Shape& shape = graph.type(id).shape;
    const int64_t first = shape.empty() ? 1 : shape[0].value();
    if (id == graph.inputs()[0]) info.batch = first;
    if (first != info.batch) info.batch = 1;
  }
  if (info.batch <= 1) return info;
  for (ValueId id : graph.inputs()) info.value_batched[size_t(id.index)] = 1;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    bool any = false;
    for (ValueId input : node.inputs) any |= input.valid() && info.value_batched[size_t(input.index)];
    if (!any || !sliceable(node.op, NodeOfGraph(graph, node, info.value_batched))) continue;
    // What the rules above say is checked by inferring the types of one sample.
    std::vector<TensorType> types(node.inputs.size());
    std::vector<Operand> operands(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const Value& value = graph.value(node.inputs[i]);
      types[i] = info.value_batched[size_t(node.inputs[i].index)] ? slice_type(value.type, 1) : value.type;
      operands[i] = {&types[i], value.constant.get(), value.contents.get()};
    }
    const auto outputs = infer(slice_op(node.op, 1), InferContext(operands, node.name));
    bool same = true;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorType& whole = graph.type(node.outputs[i]);
      same &= !whole.shape.empty() && whole.shape[0] == Dim(info.batch) && outputs[i] == slice_type(whole, 1);
    }
    if (!same) continue;
    info.node_sliceable[size_t(n)] = 1;
    for (ValueId output : node.outputs) info.value_batched[size_t(output.index)] = 1;
  }
  return info;
}

}  // namespace temper
