// SPDX-License-Identifier: Apache-2.0
#include "plan/batch.h"

#include <algorithm>

#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"

namespace temper {

namespace {

// Whether slicing axis 0 of the batched inputs slices axis 0 of every output, by what each op means. Ops that are not
// listed run on the whole batch.
struct Sliceable {
  const Graph& graph;
  const Node& node;
  const std::vector<char>& batched;

  bool is_batched(size_t i) const {
    return i < node.inputs.size() && node.inputs[i].valid() && batched[size_t(node.inputs[i].index)];
  }
  const Shape& shape(size_t i) const { return graph.type(node.inputs[i]).shape; }
  const Shape& out() const { return graph.type(node.outputs[0]).shape; }

  // Inputs from `first` on broadcast to the output: batched ones must have its rank, others must not touch axis 0.
  bool broadcasts(size_t first) const {
    for (size_t i = first; i < node.inputs.size(); ++i) {
      if (shape(i).size() > out().size()) return false;
      if (is_batched(i) ? shape(i).size() != out().size()
                        : shape(i).size() == out().size() && !shape(i).empty() && shape(i)[0] != Dim(1))
        return false;
    }
    return true;
  }

  bool operator()(const ops::Conv&) const { return is_batched(0) && !is_batched(1) && broadcasts(2); }
  bool operator()(const ops::FusedConv&) const { return (*this)(ops::Conv{}); }
  bool operator()(const ops::FusedReduce& op) const { return (*this)(op.reduce); }
  bool operator()(const ops::Pool&) const { return is_batched(0) && node.outputs.size() == 1; }
  bool operator()(const ops::Pointwise&) const { return broadcasts(0); }
  bool operator()(const ops::MatMul& op) const {
    if (!is_batched(0) || !broadcasts(2)) return false;
    if (shape(0).size() == 2) return !op.transpose_a && !is_batched(1) && shape(1).size() == 2;
    if (shape(0).size() != out().size()) return false;
    return is_batched(1) ? shape(1).size() == out().size() : shape(1).size() < out().size() || shape(1)[0] == Dim(1);
  }
  bool operator()(const ops::Softmax& op) const { return op.axis > 0; }
  bool operator()(const ops::Reduce& op) const { return op.axes.empty() || op.axes[0] > 0; }
  bool operator()(const ops::Reshape&) const {
    return node.inputs.size() == 1 && !out().empty() && out()[0] == shape(0)[0];
  }
  bool operator()(const ops::Transpose& op) const { return op.perm[0] == 0; }

  bool yes() const {
    return is_one_of<ops::Conv, ops::FusedConv, ops::FusedReduce, ops::Pool, ops::Pointwise, ops::MatMul, ops::Softmax,
                     ops::Reduce, ops::Reshape, ops::Transpose>();
  }

 private:
  // Whether the node's op is one of these, and sliceable.
  template <class... Ts>
  bool is_one_of() const {
    return ((node.op.is<Ts>() && (*this)(node.op.get<Ts>())) || ...);
  }
};

}  // namespace

Op slice_op(const Op& op, int64_t slice) {
  Op result = op;
  if (auto* reshape = result.get_if<ops::Reshape>()) reshape->shape[0] = slice;
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
    if (!any || !Sliceable{graph, node, info.value_batched}.yes()) continue;
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
