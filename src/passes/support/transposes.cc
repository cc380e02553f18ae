// SPDX-License-Identifier: Apache-2.0
#include "passes/support/transposes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <vector>

#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "graph/ops/transpose.h"
#include "passes/support/images.h"
#include "passes/support/view.h"

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
  Canceller(Graph& graph, Sinks sinks, const BuildTime& time) : graph_(graph), sinks_(sinks), time_(time) {}

  bool run() {
    bool changed = false;
    const int32_t count = graph_.node_count();
    for (int32_t n = 0; n < count; ++n) {
      time_.check_at(n);
      const Node node = graph_.node({n});
      if (node.outputs.size() != 1) continue;
      if (graph_.value(node.outputs[0]).users.empty() && !graph_.is_output(node.outputs[0])) continue;
      if (const auto* transpose = node.op.get_if<ops::Transpose>()) changed |= visit_transpose(node, transpose->perm);
      else if (const auto* matmul = node.op.get_if<ops::MatMul>())
        changed |= (sinks_ >= Sinks::rows && sink_below_product(node, *matmul)) || visit_matmul(node, *matmul);
      else if (sinks_ != Sinks::none) changed |= sink_below(node);
    }
    return changed;
  }

 private:
  Graph& graph_;
  const Sinks sinks_;
  const BuildTime& time_;

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
    return changed || cross_reshapes(node);
  }

  // Where reshapes stand between this transpose and earlier ones, what all of them show is written anew, with one
  // transpose at most.
  bool cross_reshapes(const Node& node) {
    const ValueId output = node.outputs[0];
    const View view(graph_, output);
    int transposes = 0;
    const Perm* first = nullptr;
    for (ValueId at = output; at != view.base();) {
      const Node* mover = graph_.producer(at);
      if (!mover->op.is<ops::Transpose, ops::Reshape>()) return false;
      if (const Perm* perm = perm_of(at)) first = perm, ++transposes;
      at = mover->inputs[0];
    }
    // What takes an image apart and puts it together again, as a shuffle of pixels does, moves bytes once, in between,
    // where channels lie last.
    if (first && makes_tokens_of_image(*first, view.base()) && transposes <= (is_made_image(output) ? 3 : 2) &&
        becomes_image(output))
      return false;
    if (transposes < 2 || view.shape() != graph_.type(output).shape) return false;
    const ValueId anew = view.write(graph_, node.name);
    graph_.replace(output, anew);
    if (anew != view.base()) graph_.swap_names(output, anew);
    return true;
  }

  // Whether an image is made of tokens here, or of what shows all or a part of this value.
  bool is_made_image(ValueId id) const {
    if (const Perm* perm = perm_of(id)) return makes_image(*perm);
    const Node* producer = graph_.producer(id);
    if (!producer || !producer->op.is<ops::Reshape>()) return false;
    // Of one channel.
    Shape tokens = graph_.type(producer->inputs[0]).shape;
    if (tokens.size() < 3 || !is_one(tokens.back())) return false;
    std::rotate(tokens.begin() + 1, tokens.end() - 1, tokens.end());
    return tokens == graph_.type(id).shape;
  }
  bool becomes_image(ValueId id) const {
    constexpr int kFar = 4;
    for (int nodes = 0; nodes < kFar && !is_made_image(id); ++nodes) {
      if (!graph_.has_single_use(id)) return false;
      const Node& user = graph_.node(graph_.value(id).users[0]);
      if (!user.op.is<ops::Reshape, ops::Slice, ops::Transpose>()) return false;
      id = user.outputs[0];
    }
    return is_made_image(id);
  }

  bool makes_tokens_of_image(const Perm& perm, ValueId id) const { return makes_tokens(perm) && is_image(graph_, id); }

  // A product reads a matrix either way. A transpose in front of it is dropped where it swaps just the matrix axes, and
  // otherwise turned so that it leaves the last axis in place, which is then copied in runs.
  bool visit_matmul(const Node& node, ops::MatMul op) {
    std::vector<ValueId> inputs = node.inputs;
    bool changed = false;
    for (size_t side = 0; side < 2; ++side) {
      const Perm* found = perm_of(inputs[side]);
      if (!found || (side == 0 && makes_tokens_of_image(*found, source_of(inputs[side])))) continue;
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

  // The transpose of a constant matrix, as a constant.
  ValueId turned(ValueId matrix) {
    const Tensor& constant = *graph_.constant(matrix);
    const TensorType type{constant.dtype(), {constant.dims()[1], constant.dims()[0]}};
    return graph_.add_constant(concat(graph_.value(matrix).name, ".turned"),
                               ops::Transpose{{1, 0}}.reference(std::span(&constant, 1), std::span(&type, 1)).at(0));
  }

  // A product with one matrix for all rows. Transposed rows are columns of the transposed product, whose first operand
  // is then the transposed matrix: only where that is constant.
  bool sink_below_product(const Node& node, ops::MatMul op) {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const Perm* found = perm_of(a);
    const size_t rank = graph_.type(a).shape.size();
    if (rank < 3 || graph_.type(b).rank() != 2 || (!found && !op.transpose_a)) return false;
    Perm swap(rank);
    std::iota(swap.begin(), swap.end(), int64_t(0));
    std::swap(swap[rank - 2], swap[rank - 1]);
    std::vector<ValueId> inputs = node.inputs;
    Perm perm = swap;
    if (found && !op.transpose_a && size_t(found->back()) == rank - 1) {
      perm = *found;
      inputs[0] = source_of(a);
    } else if (sinks_ == Sinks::products && (found ? *found == swap && !op.transpose_a : op.transpose_a)) {
      if (!graph_.constant(b) || !is_float(graph_.type(a).dtype) ||
          (found && makes_tokens_of_image(*found, source_of(a))))
        return false;
      inputs[0] = op.transpose_b ? b : turned(b);
      inputs[1] = found ? source_of(a) : a;
      op.transpose_a = op.transpose_b = false;
    } else {
      return false;
    }
    for (size_t i = 2; i < inputs.size(); ++i) {
      const auto before = untransposed(inputs[i], perm);
      if (!before) return false;
      inputs[i] = *before;
    }
    return put_below(node, op, std::move(inputs), perm);
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

  // A reshape behind a transpose that only adds or drops axes of size 1 changes places with it: what stands behind sees
  // the transpose, as that of a batch of one whose axis was dropped where heads were put in order.
  bool sink_below_reshape(const Node& node) {
    const Perm* found = perm_of(node.inputs[0]);
    if (!found) return false;
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = graph_.type(node.outputs[0]).shape;
    std::vector<int64_t> kept;  // the transpose's axes that are not 1, as its source has them
    for (size_t axis = 0; axis < from.size(); ++axis)
      if (!is_one(from[axis])) kept.push_back((*found)[axis]);
    const auto ones = int64_t(std::count_if(to.begin(), to.end(), is_one));
    Shape longer, wanted;
    std::copy_if(from.begin(), from.end(), std::back_inserter(longer), std::not_fn(is_one));
    std::copy_if(to.begin(), to.end(), std::back_inserter(wanted), std::not_fn(is_one));
    if (longer != wanted || longer.empty()) return false;
    // In front of the transpose all axes of size 1 come first.
    Perm perm;
    for (size_t axis = 0, one = 0, next = 0; axis < to.size(); ++axis) {
      if (is_one(to[axis])) {
        perm.push_back(int64_t(one++));
      } else {
        const int64_t source = kept[next++];
        perm.push_back(ones + std::count_if(kept.begin(), kept.end(), [&](int64_t k) { return k < source; }));
      }
    }
    ops::Reshape before;
    before.shape.assign(to.size(), Dim(1));
    for (size_t axis = 0; axis < to.size(); ++axis) before.shape[size_t(perm[axis])] = to[axis];
    return put_below(node, before, {source_of(node.inputs[0])}, perm);
  }

  bool sink_below(const Node& node) {
    if (node.inputs.empty()) return false;
    if (node.op.is<ops::Reshape>()) return sink_below_reshape(node);
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

  // What stands in the place of an input, broadcast to as many axes as `perm` has, before that transpose of all:
  // nothing where it costs something.
  std::optional<ValueId> untransposed(ValueId input, const Perm& perm) {
    if (const Perm* found = perm_of(input); found && *found == perm) return source_of(input);
    Shape shape = graph_.type(input).shape;
    if (std::all_of(shape.begin(), shape.end(), is_one)) return input;
    shape.insert(shape.begin(), perm.size() - shape.size(), Dim(1));
    const Perm back = inverse(perm);
    const Tensor* constant = graph_.constant(input);
    if (!constant && !moves_only_ones(shape, back)) return std::nullopt;
    Shape turned;
    for (int64_t axis : back) turned.push_back(shape[size_t(axis)]);
    if (turned == shape && moves_only_ones(shape, back)) return input;
    if (!constant) {
      ops::Reshape reshape;
      reshape.shape = turned;
      return graph_.add_single(reshape, {input}, concat(graph_.value(input).name, ".turned"));
    }
    const Tensor full = constant->reshaped(TensorType{constant->dtype(), shape}.dims());
    const TensorType type{constant->dtype(), turned};
    return graph_.add_constant(graph_.value(input).name,
                               ops::Transpose{back}.reference(std::span(&full, 1), std::span(&type, 1)).at(0));
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
      const auto before = untransposed(input, perm);
      if (!before) return false;
      inputs.push_back(*before);
    }
    return put_below(node, op, std::move(inputs), perm);
  }
};

}  // namespace

bool move_transposes(Graph& graph, Sinks sinks, const BuildTime& time) {
  const bool changed = Canceller(graph, sinks, time).run();
  graph.compact();
  return changed;
}

int64_t count_transposes(const Graph& graph) {
  int64_t count = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) count += graph.node({n}).op.is<ops::Transpose>();
  return count;
}

int64_t count_read_across(const Graph& graph) {
  int64_t count = count_transposes(graph);
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    if (const auto* product = node.op.get_if<ops::MatMul>())
      count += product->transpose_a && !graph.constant(node.inputs[0]);
    const auto is_last = [&](int64_t axis) { return axis + 1 == graph.type(node.inputs[0]).rank(); };
    if (const auto* rows = node.op.get_if<ops::Normalize>())
      count += !rows->axes.empty() && !is_last(rows->axes.back());
    if (const auto* rows = node.op.get_if<ops::Softmax>()) count += !is_last(rows->axis);
  }
  return count;
}

bool sink_where_fewer(Graph& graph, Sinks sinks, const BuildTime& time) {
  const int64_t before = count_read_across(graph);
  if (before == 0) return false;
  Graph sunk = graph;
  if (!move_transposes(sunk, sinks, time) || count_read_across(sunk) >= before) return false;
  graph = std::move(sunk);
  return true;
}

}  // namespace temper
