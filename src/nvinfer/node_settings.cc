// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/node_settings.h"

#include <algorithm>
#include <array>

#include "graph/op.h"
#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "graph/ops/slice.h"
#include "graph/ops/softmax.h"
#include "nvinfer/types.h"

namespace temper::nvinfer {

namespace {

using Ints = std::vector<int64_t>;
using ops::PadMode;
using ops::PoolKind;
using ops::ReduceKind;

std::string_view word_of_kind(OpKind kind) {
  switch (kind) {
    case OpKind::convolution: return "CONVOLUTION";
    case OpKind::matmul: return "MATRIX_MULTIPLY";
    case OpKind::pooling: return "POOLING";
    case OpKind::reduction: return "REDUCE";
    case OpKind::pointwise: return "ELEMENTWISE";
    case OpKind::softmax: return "SOFTMAX";
    case OpKind::normalization: return "NORMALIZATION";
    case OpKind::movement: return "SHUFFLE";
    case OpKind::quantize: return "QUANTIZE";
    case OpKind::dequantize: return "DEQUANTIZE";
    case OpKind::recurrent:
    case OpKind::attention:
    case OpKind::string:
    case OpKind::other: return "";
  }
  return "";
}

// A number of an enumeration, by the place in a list; nothing for what is not in it.
template <class T, size_t N>
std::optional<Setting> number_in(const std::array<T, N>& list, T wanted) {
  const auto it = std::find(list.begin(), list.end(), wanted);
  if (it == list.end()) return std::nullopt;
  return Ints{it - list.begin()};
}

std::optional<Setting> of_window(const ops::Window& window, size_t axes, std::string_view name) {
  enum { explicit_down, explicit_up, same_upper, same_lower };
  const auto filled = [&](const Ints& list, int64_t otherwise) { return list.empty() ? Ints(axes, otherwise) : list; };
  const Ints pads = window.pads.empty() ? Ints(2 * axes, 0) : window.pads;
  if (name == "stride") return filled(window.strides, 1);
  if (name == "dilation") return filled(window.dilations, 1);
  if (name == "pre_padding") return Ints(pads.begin(), pads.begin() + int64_t(axes));
  if (name == "post_padding") return Ints(pads.begin() + int64_t(axes), pads.end());
  if (name == "padding_mode")
    return Ints{window.pad_mode == PadMode::same_upper   ? same_upper
                : window.pad_mode == PadMode::same_lower ? same_lower
                : window.ceil_mode                       ? explicit_up
                                                         : explicit_down};
  return std::nullopt;
}

std::optional<Setting> of_conv(const Graph& graph, const Node& node, const ops::Conv& op, std::string_view name) {
  const TensorType& weights = graph.type(node.inputs[1]);
  if (weights.rank() < 3) return std::nullopt;
  const size_t axes = size_t(weights.rank()) - 2;
  Dims dims;
  for (const Dim& dim : weights.shape) {
    if (!dim.is_constant()) return std::nullopt;
    dims.push_back(dim.value());
  }
  const auto weights_at = [&](size_t input) -> std::optional<Setting> {
    const Tensor* const held = node.inputs.size() > input ? graph.constant(node.inputs[input]) : nullptr;
    return held ? *held : Tensor(DType::f32, {0});
  };
  if (name == "kernel_size") return Ints(dims.begin() + 2, dims.end());
  if (name == "maps") return Ints{dims[0]};
  if (name == "groups") return Ints{op.group};
  if (name == "kernel") return weights_at(1);
  if (name == "bias") return weights_at(2);
  return of_window({{}, op.strides, op.dilations, op.pads, op.pad_mode}, axes, name);
}

std::optional<Setting> of_pool(const ops::Pool& op, std::string_view name) {
  const bool is_dilated = std::any_of(op.dilations.begin(), op.dilations.end(), [](int64_t by) { return by != 1; });
  if (op.kind == PoolKind::lp || is_dilated || op.with_indices) return std::nullopt;
  if (name == "operation") return Ints{op.kind == PoolKind::average};
  if (name == "window") return op.kernel;
  if (name == "average_excludes_padding") return Ints{!op.count_include_pad};
  if (name == "blend") return std::vector<double>{0};
  return of_window(op.window(), op.kernel.size(), name);
}

std::optional<Setting> of_reduce(const Graph& graph, const Node& node, const ops::Reduce& op, std::string_view name) {
  constexpr std::array kinds = {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min, ReduceKind::mean};
  if (name == "operation") return number_in(kinds, op.kind);
  if (name == "keep") return Ints{op.keepdims};
  if (name != "axes" || node.inputs.size() != 1) return std::nullopt;
  const int64_t rank = graph.type(node.inputs[0]).rank();
  int64_t bits = 0;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool is_in = op.axes.empty() || std::any_of(op.axes.begin(), op.axes.end(),
                                                      [&](int64_t of) { return of == axis || of + rank == axis; });
    if (is_in) bits |= int64_t(1) << axis;
  }
  return Ints{bits};
}

// A program of one step that is a layer's operation.
std::optional<Setting> of_program(const Program& program, std::string_view name) {
  if (program.steps.size() != 1) return std::nullopt;
  const Step& step = program.steps[0];
  if (program.inputs == 1 && arity_of(step.op) == 1) {
    constexpr std::array activations = {Scalar::relu, Scalar::sigmoid, Scalar::tanh};
    constexpr std::array unary = {
        Scalar::exp,         Scalar::log,   Scalar::sqrt,  Scalar::reciprocal, Scalar::abs,
        Scalar::neg,         Scalar::sin,   Scalar::cos,   Scalar::tan,        Scalar::sinh,
        Scalar::cosh,        Scalar::asin,  Scalar::acos,  Scalar::atan,       Scalar::asinh,
        Scalar::acosh,       Scalar::atanh, Scalar::ceil,  Scalar::floor,      Scalar::erf,
        Scalar::logical_not, Scalar::sign,  Scalar::round, Scalar::is_inf,     Scalar::is_nan};
    if (name == "to" && step.op == Scalar::cast && type_number(step.dtype) >= 0) return Ints{type_number(step.dtype)};
    const auto activation = number_in(activations, step.op);
    if (activation && (name == "alpha" || name == "beta")) return std::vector<double>{0};
    if (name != "operation") return std::nullopt;
    return activation ? activation : number_in(unary, step.op);
  }
  if (name != "operation" || arity_of(step.op) != 2) return std::nullopt;
  constexpr std::array binary = {Scalar::add,         Scalar::mul,        Scalar::max,         Scalar::min,
                                 Scalar::sub,         Scalar::div,        Scalar::pow,         Scalar::constant,
                                 Scalar::logical_and, Scalar::logical_or, Scalar::logical_xor, Scalar::equal,
                                 Scalar::constant,    Scalar::less};
  const bool in_order = step.args[0] <= step.args[1];
  constexpr std::array ordered = {Scalar::sub, Scalar::div, Scalar::pow, Scalar::less};
  if (!in_order && std::find(ordered.begin(), ordered.end(), step.op) != ordered.end()) return std::nullopt;
  return number_in(binary, step.op);
}

}  // namespace

// A program of one step on one input is an activation or a function of one number where TensorRT has a layer for it.
std::string_view word_for(const Op& op) {
  if (op.get_if<ops::ConvTranspose>()) return "DECONVOLUTION";
  if (op.get_if<ops::Concat>()) return "CONCATENATION";
  if (op.get_if<ops::Slice>()) return "SLICE";
  if (op.get_if<ops::Gather>()) return "GATHER";
  if (op.get_if<ops::Resize>()) return "RESIZE";
  const auto* const pointwise = op.get_if<ops::Pointwise>();
  if (!pointwise || pointwise->program.inputs != 1 || pointwise->program.steps.size() != 1)
    return word_of_kind(kind_of(op));
  switch (pointwise->program.steps[0].op) {
    case Scalar::relu:
    case Scalar::sigmoid:
    case Scalar::tanh: return "ACTIVATION";
    case Scalar::cast: return "CAST";
    case Scalar::abs:
    case Scalar::acos:
    case Scalar::acosh:
    case Scalar::asin:
    case Scalar::asinh:
    case Scalar::atan:
    case Scalar::atanh:
    case Scalar::ceil:
    case Scalar::cos:
    case Scalar::cosh:
    case Scalar::erf:
    case Scalar::exp:
    case Scalar::floor:
    case Scalar::is_inf:
    case Scalar::is_nan:
    case Scalar::log:
    case Scalar::logical_not:
    case Scalar::neg:
    case Scalar::reciprocal:
    case Scalar::round:
    case Scalar::sign:
    case Scalar::sin:
    case Scalar::sinh:
    case Scalar::sqrt:
    case Scalar::tan: return "UNARY";
    default: return word_of_kind(kind_of(op));
  }
}

std::optional<Setting> setting_of(const Graph& graph, const Node& node, std::string_view name) {
  if (const auto* const op = node.op.get_if<ops::Conv>()) return of_conv(graph, node, *op, name);
  if (const auto* const op = node.op.get_if<ops::Pool>()) return of_pool(*op, name);
  if (const auto* const op = node.op.get_if<ops::Reduce>()) return of_reduce(graph, node, *op, name);
  if (const auto* const op = node.op.get_if<ops::Pointwise>()) return of_program(op->program, name);
  if (const auto* const op = node.op.get_if<ops::Softmax>(); op && !op->log && name == "axes")
    return Ints{int64_t(1) << op->axis};
  if (const auto* const op = node.op.get_if<ops::Concat>(); op && name == "axis") return Ints{op->axis};
  if (const auto* const op = node.op.get_if<ops::MatMul>()) {
    const bool of_matrices = graph.type(node.inputs[0]).rank() > 1 && graph.type(node.inputs[1]).rank() > 1;
    if (of_matrices && name == "operation0") return Ints{op->transpose_a};
    if (of_matrices && name == "operation1") return Ints{op->transpose_b};
  }
  return std::nullopt;
}

}  // namespace temper::nvinfer
