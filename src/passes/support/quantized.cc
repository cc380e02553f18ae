// SPDX-License-Identifier: Apache-2.0
#include "passes/support/quantized.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/dequantize.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reshape.h"

namespace temper {

namespace {

std::optional<Quantization> read(const Graph& graph, const Node& node, int64_t axis) {
  Quantization result;
  result.value = node.inputs[0];
  result.scale = node.inputs[1];
  result.zero = node.inputs.size() > 2 ? node.inputs[2] : ValueId{};
  result.axis = axis;
  const Tensor *scale = graph.constant(result.scale), *zero = graph.constant(result.zero);
  if (!scale || scale->dtype() != DType::f32 || scale->count() == 0 || (result.zero.valid() && !zero))
    return std::nullopt;
  result.scales = scale->to_doubles();
  result.zeros = zero ? zero->to_ints() : std::vector<int64_t>(result.scales.size(), 0);
  for (double s : result.scales)
    if (!(s > 0) || !std::isfinite(s)) return std::nullopt;
  return result;
}

bool is_zero(const Tensor* constant) {
  if (!constant) return false;
  const std::vector<int64_t> values = constant->to_ints();
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
}

}  // namespace

std::optional<Quantization> dequantization_of(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  const auto* op = node ? node->op.get_if<ops::Dequantize>() : nullptr;
  if (!op || op->dtype != DType::f32) return std::nullopt;
  auto result = read(graph, *node, op->axis);
  if (result) result->dtype = graph.type(node->inputs[0]).dtype;
  return result;
}

std::optional<Quantization> quantization_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto* op = node.op.get_if<ops::Quantize>();
  if (!op || graph.type(node.inputs[0]).dtype != DType::f32) return std::nullopt;
  auto result = read(graph, node, op->axis);
  if (result) result->dtype = op->dtype;
  return result;
}

std::optional<Quantization> only_quantized(const Graph& graph, ValueId value) {
  if (!graph.has_single_use(value)) return std::nullopt;
  auto result = quantization_of(graph, graph.value(value).users[0]);
  if (!result || result->value != value || !result->per_tensor()) return std::nullopt;
  if (!result->is_narrow() && !result->is_float8()) return std::nullopt;
  return result;
}

BoundProgram program_of_quantization(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const auto* quantize = node.op.get_if<ops::Quantize>();
  const auto* dequantize = node.op.get_if<ops::Dequantize>();
  const int64_t axis = quantize ? quantize->axis : dequantize->axis, rank = graph.type(node.inputs[0]).rank();
  BoundProgram bound;
  bound.inputs.push_back(node.inputs[0]);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    ValueId parameter = node.inputs[i];
    if (!parameter.valid() || (i == 2 && is_zero(graph.constant(parameter)))) continue;
    if (graph.type(parameter).rank() == 1) {
      Shape shape{graph.type(parameter).shape[0]};
      shape.resize(size_t(rank - axis), Dim(1));
      const std::string name = concat(graph.value(parameter).name, "/along_axis");
      if (const Tensor* constant = graph.constant(parameter))
        parameter = graph.add_constant(name, constant->reshaped(TensorType{DType::f32, shape}.dims()));
      else parameter = graph.add_single(ops::Reshape{shape}, {parameter}, name);
    }
    bound.inputs.push_back(parameter);
  }
  Program& p = bound.program;
  p.inputs = int(bound.inputs.size());
  const bool shifted = p.inputs > 2;
  const auto cast = [&](int value, DType from, DType to) {
    return from == to ? value : p.push({Scalar::cast, to, {value, -1, -1}});
  };
  const DType x = graph.type(node.inputs[0]).dtype, scale = graph.type(node.inputs[1]).dtype;
  // Wide enough to be exact up to the last rounding.
  const DType wide = scale == DType::f64 || size_of(x) > 4 || (dequantize && size_of(x) == 4) ? DType::f64 : DType::f32;
  if (quantize && quantize->dtype == DType::f8e4m3fn) {
    cast(p.push({Scalar::div, scale, {cast(0, x, scale), 1, -1}}), scale, quantize->dtype);
  } else if (quantize) {
    // The quotient is rounded to the scale's dtype.
    const int quotient = p.push({Scalar::div, scale, {cast(0, x, scale), 1, -1}});
    int value = p.push({Scalar::round, wide, {cast(quotient, scale, wide), -1, -1}});
    if (shifted) value = p.push({Scalar::add, wide, {value, cast(2, quantize->dtype, wide), -1}});
    cast(value, wide, quantize->dtype);
  } else {
    int value = cast(0, x, wide);
    if (shifted) value = p.push({Scalar::sub, wide, {value, cast(2, x, wide), -1}});
    cast(p.push({Scalar::mul, wide, {value, cast(1, scale, wide), -1}}), wide, dequantize->dtype);
  }
  tidy(graph, bound);
  return bound;
}

std::optional<std::vector<double>> channel_constants(const Graph& graph, ValueId value, int64_t rank, int64_t axis,
                                                     int64_t size) {
  const Tensor* constant = graph.constant(value);
  if (!constant) return std::nullopt;
  const Dims& dims = constant->dims();
  if (int64_t(dims.size()) > rank) return std::nullopt;
  const int64_t skip = rank - int64_t(dims.size());
  if (constant->count() != 1)
    for (int64_t i = 0; i < int64_t(dims.size()); ++i)
      if (dims[size_t(i)] != (i + skip == axis ? size : 1)) return std::nullopt;
  if (constant->count() == 0) return std::nullopt;
  return constant->to_doubles();
}

}  // namespace temper
