// SPDX-License-Identifier: Apache-2.0
// commute_quantization: dequantize moves behind, quantize before the ops that only move elements or choose among them,
// until they meet and cancel. With one scale and zero point for all elements, dequantize and quantize are monotone and
// work element by element: they change places with whatever moves elements (reshape, transpose, slice, gather, ...),
// with the larger of several (max pool), and with concat where all parts agree. Then quantize(dequantize(x)) with equal
// numbers is x. A constant with scales along an axis keeps them through reshape and transpose. f8e4m3fn moves, but is
// not chosen among.
#include <algorithm>

#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/gather.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"
#include "passes/support/quantized.h"

namespace temper {

namespace {

// Of a node with one data input (the first); the rest are indices or sizes. Resizing stays on floats.
bool moves_elements(const Node& node, const Quantization& q) {
  if (node.outputs.size() != 1 || (q.is_float8() && node.op.is<ops::Pool>())) return false;
  if (node.op.is<ops::Pool>()) return flow_of(node.op, 0) == Flow::chosen;
  return flow_of(node.op, 0) == Flow::moved && flow_of(node.op, 1) != Flow::moved && !node.op.is<ops::Resize>();
}

class Commuter {
 public:
  Commuter(Graph& graph, const BuildTime& time) : graph_(graph), time_(time) {}

  bool run() {
    bool changed = false;
    for (bool again = true; again;) {
      again = false;
      const int32_t count = graph_.node_count();
      for (int32_t n = 0; n < count; ++n) {
        time_.check_at(n);
        if (is_alive({n})) again |= visit({n});
      }
      changed |= again;
      if (again) graph_.compact();
    }
    return changed;
  }

 private:
  Graph& graph_;
  const BuildTime& time_;

  bool is_alive(NodeId id) const {
    for (ValueId output : graph_.node(id).outputs)
      if (!graph_.value(output).users.empty() || graph_.is_output(output)) return true;
    return false;
  }

  bool visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op.is<ops::Quantize>()) return shift_to_unsigned(id) || cancel(id) || hoist(id);
    if (node.op.is<ops::Pad>()) return sink_pad(id);
    if (node.op.is<ops::Concat>()) return sink_concat(id);
    return sink(id);
  }

  ValueId dequantize(ValueId old_value, ValueId integers, const Quantization& q, int64_t axis,
                     const std::string& name) {
    std::vector<ValueId> inputs{integers, q.scale};
    if (q.zero.valid()) inputs.push_back(q.zero);
    return graph_.rewrite(old_value, ops::Dequantize{DType::f32, axis}, std::move(inputs), name);
  }

  // i8 with the zero point -128 is what some quantizers make of values that are never negative: the same as u8 without
  // one.
  bool shift_to_unsigned(NodeId id) {
    const auto q = quantization_of(graph_, id);
    const ValueId output = graph_.node(id).outputs[0];
    if (!q || q->dtype != DType::i8 || !q->per_tensor() || q->zeros[0] != -128 || graph_.is_output(output))
      return false;
    const Users users = graph_.value(output).users;
    for (NodeId user : users) {
      const auto d = dequantization_of(graph_, graph_.node(user).outputs[0]);
      if (!d || d->value != output || !d->per_tensor() || d->zeros[0] != -128) return false;
    }
    ops::Quantize op;
    op.dtype = DType::u8;
    const ValueId shifted = graph_.add_single(op, {q->value, q->scale}, std::string(graph_.node(id).name));
    for (NodeId user : users) {
      const Node node = graph_.node(user);
      graph_.rewrite(node.outputs[0], node.op, {shifted, node.inputs[1]}, node.name);
    }
    return true;
  }

  bool cancel(NodeId id) {
    const auto q = quantization_of(graph_, id);
    if (!q) return false;
    const auto d = dequantization_of(graph_, q->value);
    if (!d || !d->same_numbers(*q)) return false;
    graph_.replace(graph_.node(id).outputs[0], d->value);
    return true;
  }

  // quantize(move(x)) -> move(quantize(x)) where what computes x can then write the narrow integers itself.
  bool hoist(NodeId id) {
    const auto q = quantization_of(graph_, id);
    if (!q || !q->per_tensor() || !graph_.has_single_use(q->value)) return false;
    const Node* mover = graph_.producer(q->value);
    if (!mover || !moves_elements(*mover, *q) || mover->op.is<ops::Broadcast, ops::Gather>()) return false;
    const ValueId x = mover->inputs[0];
    const Node* maker = graph_.producer(x);
    if (!maker || !graph_.has_single_use(x) || !(maker->op.is<ops::Pointwise>() || epilogue_of(maker->op)))
      return false;
    const Node moving = *mover, quantizing = graph_.node(id);
    std::vector<ValueId> inputs = quantizing.inputs;
    inputs[0] = x;
    const ValueId integers = graph_.add_single(quantizing.op, std::move(inputs), quantizing.name);
    inputs = moving.inputs;
    inputs[0] = integers;
    graph_.rewrite(quantizing.outputs[0], moving.op, std::move(inputs), moving.name);
    return true;
  }

  bool sink(NodeId id) {
    if (graph_.node(id).inputs.empty() || !graph_.node(id).inputs[0].valid()) return false;
    const auto q = dequantization_of(graph_, graph_.node(id).inputs[0]);
    if (!q || !moves_elements(graph_.node(id), *q)) return false;
    const Node node = graph_.node(id);
    int64_t axis = 0;
    if (!q->per_tensor()) {
      const auto moved = moved_axis(node, *q);
      if (!graph_.constant(q->value) || !moved) return false;
      axis = *moved;
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = q->value;
    ValueId integers;
    const bool constant = std::all_of(inputs.begin(), inputs.end(),
                                      [&](ValueId input) { return !input.valid() || graph_.constant(input); });
    if (constant && graph_.type(node.outputs[0]).is_concrete() && !node.op.is<ops::Broadcast>()) {
      std::vector<Tensor> tensors;
      tensors.reserve(inputs.size());
      for (ValueId input : inputs) tensors.push_back(input.valid() ? *graph_.constant(input) : Tensor());
      integers = graph_.add_constant(concat(node.name, "/integers"), run_node(node.op, tensors, node.name).at(0));
    } else {
      integers = graph_.add_single(node.op, std::move(inputs), node.name);
      if (graph_.type(integers).shape != graph_.type(node.outputs[0]).shape)
        return false;  // a size that only the data decides
    }
    dequantize(node.outputs[0], integers, *q, axis, node.name);
    return true;
  }

  // Where the axis of the scales goes; nothing where it does not stay one axis.
  std::optional<int64_t> moved_axis(const Node& node, const Quantization& q) const {
    if (const auto* transpose = node.op.get_if<ops::Transpose>()) {
      const auto at = std::find(transpose->perm.begin(), transpose->perm.end(), q.axis);
      return at == transpose->perm.end() ? std::nullopt : std::optional(int64_t(at - transpose->perm.begin()));
    }
    if (!node.op.is<ops::Reshape>() || !graph_.type(node.outputs[0]).is_concrete()) return std::nullopt;
    const Dims from = graph_.type(q.value).dims(), to = graph_.type(node.outputs[0]).dims();
    const Dims from_strides = row_major_strides(from), to_strides = row_major_strides(to);
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] == from[size_t(q.axis)] && to_strides[i] == from_strides[size_t(q.axis)]) return int64_t(i);
    return std::nullopt;
  }

  // Zeros around are zero points around.
  bool sink_pad(NodeId id) {
    const Node node = graph_.node(id);
    const auto q = dequantization_of(graph_, node.inputs[0]);
    if (!q || !q->per_tensor() || q->is_float8() || node.inputs.size() > 2) return false;
    std::vector<ValueId> inputs{q->value};
    if (node.op.get<ops::Pad>().kind == ops::PadKind::constant) {
      if (node.inputs.size() > 1 && node.inputs[1].valid()) {
        const Tensor* value = graph_.constant(node.inputs[1]);
        if (!value || value->to_doubles() != std::vector<double>{0}) return false;
      }
      if (q->zeros[0] != 0) {
        const Tensor zero = Tensor::of<int64_t>({}, {q->zeros[0]}).converted(q->dtype);
        inputs.push_back(graph_.add_constant(concat(node.name, "/zero_point"), zero));
      }
    }
    const ValueId integers = graph_.add_single(node.op, std::move(inputs), node.name);
    if (graph_.type(integers).shape != graph_.type(node.outputs[0]).shape) return false;
    dequantize(node.outputs[0], integers, *q, 0, node.name);
    return true;
  }

  bool sink_concat(NodeId id) {
    const Node node = graph_.node(id);
    std::optional<Quantization> first;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      const auto q = dequantization_of(graph_, input);
      if (!q || !q->per_tensor() || (first && !first->same_numbers(*q))) return false;
      if (!first) first = q;
      inputs.push_back(q->value);
    }
    const ValueId integers = graph_.add_single(node.op, std::move(inputs), node.name);
    if (graph_.type(integers).shape != graph_.type(node.outputs[0]).shape) return false;
    dequantize(node.outputs[0], integers, *first, 0, node.name);
    return true;
  }
};

}  // namespace

bool commute_quantization(Graph& graph, const PassOptions& options) { return Commuter(graph, options.time).run(); }

}  // namespace temper
