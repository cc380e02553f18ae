// SPDX-License-Identifier: Apache-2.0
// narrow_constants: a constant operand of a pointwise node that repeats itself along axes is kept once, and the node
// broadcasts it. Exporters leave such behind, as the rows of token types that nobody gave: one row for each token of
// each sequence of the batch, which is read from memory at every run. Its innermost axis stays: a scale of ones, as
// untrained models have it, remains what trained ones have.
#include <cstring>
#include <map>

#include "graph/ops/pointwise.h"
#include "passes/pass.h"

namespace temper {

namespace {

// The last axis of more than one element; 0 where there is none.
size_t innermost(const Dims& dims) {
  size_t axis = dims.empty() ? 0 : dims.size() - 1;
  while (axis > 0 && dims[axis] == 1) --axis;
  return axis;
}

// The slices of a tensor along an axis: `outer` times `count` of them lie one behind the other.
struct Slices {
  size_t outer = 1, count, bytes;
  Slices(const Tensor& tensor, size_t axis)
      : count(size_t(tensor.dims()[axis])), bytes(size_t(size_of(tensor.dtype()))) {
    for (size_t i = 0; i < tensor.dims().size(); ++i)
      if (i != axis) (i < axis ? outer : bytes) *= size_t(tensor.dims()[i]);
  }
};

// Whether all slices along an axis are equal, bit for bit.
bool repeats(const Tensor& tensor, size_t axis) {
  const Slices slices(tensor, axis);
  const std::byte* at = tensor.raw().data();
  for (size_t o = 0; o < slices.outer; ++o, at += slices.count * slices.bytes)
    if (std::memcmp(at, at + slices.bytes, (slices.count - 1) * slices.bytes) != 0)
      return false;  // each beside the next
  return true;
}

// The first slice along the axis.
Tensor first_slice(const Tensor& tensor, size_t axis) {
  const Slices slices(tensor, axis);
  Dims dims = tensor.dims();
  dims[axis] = 1;
  Tensor out(tensor.dtype(), dims);
  for (size_t o = 0; o < slices.outer; ++o)
    std::memcpy(out.raw_mutable() + o * slices.bytes, tensor.raw().data() + o * slices.count * slices.bytes,
                slices.bytes);
  return out;
}

// Whether another operand than `input` gives the result its size along the axis of `input`.
bool is_given_by_others(const Graph& graph, const Shape& result, std::span<const ValueId> inputs, size_t input,
                        size_t axis) {
  const size_t from_end = graph.type(inputs[input]).rank() - axis;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& other = graph.type(inputs[i]).shape;
    if (i != input && other.size() >= from_end && other[other.size() - from_end] == result[result.size() - from_end])
      return true;
  }
  return false;
}

}  // namespace

bool narrow_constants(Graph& graph, const PassOptions& options) {
  bool changed = false;
  std::map<std::pair<ValueId, std::vector<size_t>>, ValueId> narrowed;  // by the axes that are kept once
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const Node node = graph.node({n});
    const auto* op = node.op.get_if<ops::Pointwise>();
    if (!op) continue;
    const Shape result = graph.type(node.outputs[0]).shape;
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor* constant = graph.constant(inputs[i]);
      if (!constant) continue;
      std::optional<Tensor> kept;
      std::vector<size_t> axes;
      for (size_t axis = 0; axis < innermost(constant->dims()); ++axis) {
        const Tensor& from = kept ? *kept : *constant;
        if (from.dims()[axis] > 1 && is_given_by_others(graph, result, inputs, i, axis) && repeats(from, axis)) {
          kept = first_slice(from, axis);
          axes.push_back(axis);
        }
      }
      if (!kept) continue;
      ValueId& to = narrowed[{inputs[i], axes}];
      if (!to.valid()) to = graph.add_constant(concat(graph.value(inputs[i]).name, ".once"), std::move(*kept));
      inputs[i] = to;
    }
    if (inputs == node.inputs) continue;
    graph.rewrite(node.outputs[0], ops::Pointwise(*op), std::move(inputs), node.name);
    changed = true;
  }
  return changed;
}

}  // namespace temper
