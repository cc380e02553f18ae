// SPDX-License-Identifier: Apache-2.0
// cancel_transposes: two transposes in a row are one, inverse ones none; a transpose that moves only axes of size 1 is
// a reshape; one that swaps the two axes of a matrix becomes the product's transpose_a or transpose_b. Transposes also
// sink through ops that do not care for the order of axes (pointwise, and those with take_untransposed): on a copy of
// the graph, which is taken only if fewer transposes are left in it.
#include <algorithm>
#include <numeric>

#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"

namespace temper {

namespace {

using Perm = std::vector<int64_t>;

bool is_identity(const Perm& perm) { return std::is_sorted(perm.begin(), perm.end()); }

Perm inverse(const Perm& perm) {
  Perm result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[size_t(perm[i])] = int64_t(i);
  return result;
}

bool is_one(const Dim& dim) { return dim == Dim(1); }

// The elements keep their row-major order: axes longer than 1 do not change places.
bool moves_only_ones(const Shape& from, const Perm& perm) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (is_one(from[size_t(axis)])) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

class Canceller {
 public:
  Canceller(Graph& graph, bool sink) : graph_(graph), sink_(sink) {}

  bool run() {
    bool changed = false;
    const int32_t count = graph_.node_count();
    for (int32_t n = 0; n < count; ++n) {
      const Node node = graph_.node({n});
      if (node.outputs.size() != 1) continue;
      if (graph_.value(node.outputs[0]).users.empty() && !graph_.is_output(node.outputs[0])) continue;
      if (const auto* transpose = node.op.get_if<ops::Transpose>()) changed |= visit_transpose(node, transpose->perm);
      else if (const auto* matmul = node.op.get_if<ops::MatMul>()) changed |= visit_matmul(node, *matmul);
      else if (sink_) changed |= sink_below(node);
    }
    return changed;
  }

 private:
  Graph& graph_;
  const bool sink_;

  const Perm* perm_of(ValueId id) const {
    const Node* producer = graph_.producer(id);
    const auto* op = producer ? producer->op.get_if<ops::Transpose>() : nullptr;
    return op ? &op->perm : nullptr;
  }
  ValueId source_of(ValueId transposed) const { return graph_.producer(transposed)->inputs[0]; }

  bool visit_transpose(const Node& node, Perm perm) {
    ValueId source = node.inputs[0];
    bool changed = false;
    while (const Perm* before = perm_of(source)) {
      for (int64_t& axis : perm) axis = (*before)[size_t(axis)];
      source = source_of(source);
      changed = true;
    }
    const ValueId output = node.outputs[0];
    if (is_identity(perm)) {
      graph_.replace(output, source);
      return true;
    }
    if (moves_only_ones(graph_.type(source).shape, perm)) {
      ops::Reshape reshape;
      reshape.shape = graph_.type(output).shape;
      graph_.rewrite(output, reshape, {source}, node.name);
      return true;
    }
    if (changed) graph_.rewrite(output, ops::Transpose{perm}, {source}, node.name);
    return changed;
  }

  // A product reads a matrix either way. A transpose in front of it is dropped where it swaps just the matrix axes, and
  // otherwise turned so that it leaves the last axis in place, which is then copied in runs.
  bool visit_matmul(const Node& node, ops::MatMul op) {
    std::vector<ValueId> inputs = node.inputs;
    bool changed = false;
    for (size_t side = 0; side < 2; ++side) {
      const Perm* found = perm_of(inputs[side]);
      if (!found) continue;
      Perm perm = *found;
      const int64_t last = int64_t(perm.size()) - 1;
      const bool was_last = perm.back() == last;
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      if (is_identity(perm)) inputs[side] = source_of(inputs[side]);
      else if (!was_last && perm.back() == last && graph_.has_single_use(inputs[side]))
        inputs[side] =
            graph_.add_single(ops::Transpose{perm}, {source_of(inputs[side])}, graph_.producer(inputs[side])->name);
      else continue;
      bool& flag = side == 0 ? op.transpose_a : op.transpose_b;
      flag = !flag;
      changed = true;
    }
    if (changed) graph_.rewrite(node.outputs[0], op, std::move(inputs), node.name);
    return changed;
  }

  // The node on the untransposed values, and the transpose behind it.
  bool put_below(const Node& node, Op op, std::vector<ValueId> inputs, const Perm& perm) {
    const ValueId result = graph_.add_single(std::move(op), std::move(inputs), node.name);
    if (is_identity(perm)) {
      graph_.replace(node.outputs[0], result);
      graph_.swap_names(node.outputs[0], result);
    } else graph_.rewrite(node.outputs[0], ops::Transpose{perm}, {result}, concat(node.name, ".transposed"));
    return true;
  }

  bool sink_below(const Node& node) {
    if (node.inputs.empty()) return false;
    if (const auto* op = node.op.get_if<ops::Pointwise>()) return sink_below_pointwise(node, *op);
    const Perm* found = perm_of(node.inputs[0]);
    if (!found) return false;
    const Perm perm = *found;
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i > 0 && flow_of(node.op, i) == Flow::computed) continue;
      const Perm* other = perm_of(inputs[i]);
      if (!other || *other != perm) return false;
      inputs[i] = source_of(inputs[i]);
    }
    Op op = node.op;
    const auto behind = take_untransposed(op, perm, inputs.size());
    return behind && put_below(node, std::move(op), std::move(inputs), *behind);
  }

  // All inputs that have axes must come through the same transpose, or be turned back for nothing.
  bool sink_below_pointwise(const Node& node, const ops::Pointwise& op) {
    Perm perm;
    const size_t rank = size_t(graph_.type(node.outputs[0]).rank());
    for (ValueId input : node.inputs)
      if (const Perm* found = perm_of(input); found && found->size() == rank) {
        if (!perm.empty() && perm != *found) return false;
        perm = *found;
      }
    if (perm.empty()) return false;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      if (const Perm* found = perm_of(input); found && found->size() == rank) {
        inputs.push_back(source_of(input));
        continue;
      }
      Shape shape = graph_.type(input).shape;
      if (std::all_of(shape.begin(), shape.end(), is_one)) {
        inputs.push_back(input);
        continue;
      }
      shape.insert(shape.begin(), rank - shape.size(), Dim(1));
      const Perm back = inverse(perm);
      const Tensor* constant = graph_.constant(input);
      if (!constant && !moves_only_ones(shape, back)) return false;
      Shape turned;
      for (int64_t axis : back) turned.push_back(shape[size_t(axis)]);
      if (constant) {
        const Tensor full = constant->reshaped(TensorType{constant->dtype(), shape}.dims());
        const TensorType type{constant->dtype(), turned};
        inputs.push_back(graph_.add_constant(
            graph_.value(input).name, ops::Transpose{back}.reference(std::span(&full, 1), std::span(&type, 1)).at(0)));
      } else {
        ops::Reshape reshape;
        reshape.shape = turned;
        inputs.push_back(graph_.add_single(reshape, {input}, concat(node.name, ".turned")));
      }
    }
    return put_below(node, op, std::move(inputs), perm);
  }
};

int64_t count_transposes(const Graph& graph) {
  int64_t count = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) count += graph.node({n}).op.is<ops::Transpose>();
  return count;
}

}  // namespace

bool cancel_transposes(Graph& graph, const PassOptions&) {
  if (count_transposes(graph) == 0) return false;
  Graph sunk = graph;
  const bool sinks = Canceller(sunk, true).run();
  const bool changed = Canceller(graph, false).run();
  graph.compact();
  if (!sinks) return changed;
  sunk.compact();
  if (count_transposes(sunk) >= count_transposes(graph)) return changed;
  graph = std::move(sunk);
  return true;
}

}  // namespace temper
