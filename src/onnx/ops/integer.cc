// SPDX-License-Identifier: Apache-2.0
// Imports MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv. Products of 8-bit operands wherever that is exact:
// the zero point of constant weights is taken off beforehand where the difference fits into i8, and that of the input
// afterwards, as zero * (sum of the weights); padding stands for the zero point, as ONNX wants, so it is added before.
// What is left is computed on i32 after the zero points are taken off.
#include <limits>

#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pad.h"
#include "graph/ops/quantize.h"
#include "graph/ops/window.h"
#include "onnx/broadcast.h"
#include "onnx/scales.h"
#include "onnx/window.h"

namespace temper {

namespace {

bool is_scalar(const TensorType& type) { return type.rank() == 0 || type.shape == Shape{Dim(1)}; }

// Input `i` as i32 less its zero point, input `zero`. A vector of zero points belongs to axis `axis` of the input.
ValueId centered(OnnxNode& node, size_t i, size_t zero, int64_t axis) {
  const DType dtype = node.type(i).dtype;
  if (!node.has(zero)) return node.cast(node.input(i), DType::i32);
  const TensorType& type = node.type(zero);
  ValueId point = node.input(zero);
  if (is_scalar(type)) point = node.reshape(point, {});
  else if (type.rank() == 1) point = along_axis(node, point, axis, node.type(i).rank());
  else if (type.rank() != node.type(i).rank()) node.bad("the zero point ", type, " of an input ", node.type(i));
  ProgramBuilder b({dtype, type.dtype});
  return node.program(b.result(b.op(Scalar::sub, b.cast(0, DType::i32), b.cast(1, DType::i32))),
                      {node.input(i), point});
}

ValueId scalar_input(OnnxNode& node, size_t i, std::string_view what) {
  if (!is_scalar(node.type(i))) node.refuse(what, " with the type ", node.type(i), "; only a scalar is supported");
  return node.reshape(node.input(i), {});
}

// A vector that belongs to the output's channels has one value for each.
void check_length(OnnxNode& node, size_t i, const Dim& channels, std::string_view what) {
  const TensorType& type = node.type(i);
  if (type.rank() == 1 && !is_scalar(type) && type.shape[0].is_constant() && channels.is_constant() &&
      type.shape[0] != channels)
    node.bad("there are ", type.shape[0], " ", what, " for ", channels, " channels");
}

// acc * (scale_a * scale_b) quantized by y's scale and zero point. `scale_b` is a vector along axis `axis` of y or a
// scalar.
ValueId requantized(OnnxNode& node, ValueId acc, size_t a, size_t b, size_t y, int64_t axis) {
  for (const auto& [input, divides] : {std::pair(a, false), std::pair(b, false), std::pair(y, true)})
    check_scales(node, input, divides);
  const TensorType acc_type = node.graph().type(acc);
  const int64_t rank = acc_type.rank();
  check_length(node, b, acc_type.shape[size_t(axis)], "scales of the weights");
  ValueId scale_b = node.input(b);
  if (is_scalar(node.type(b))) scale_b = node.reshape(scale_b, {});
  else if (node.type(b).rank() == 1) scale_b = along_axis(node, scale_b, axis, rank);
  else node.refuse("scales of the type ", node.type(b), "; only a scalar or a vector is supported");
  const ValueId scale_a = scalar_input(node, a, "the scale of the first input");
  ProgramBuilder p({DType::i32, node.type(a).dtype, node.type(b).dtype});
  const int scale = p.op(Scalar::mul, p.cast(1, DType::f32), p.cast(2, DType::f32));
  const ValueId real = node.program(p.result(p.op(Scalar::mul, p.cast(0, DType::f32), scale)), {acc, scale_a, scale_b});
  ops::Quantize op;
  op.dtype = node.type(y + 1).dtype;
  return node.add(op, {real, node.cast(scalar_input(node, y, "the scale of the output"), DType::f32),
                       scalar_input(node, y + 1, "the zero point of the output")});
}

// Constant weights (input `i`, zero points along `axis` in input `zero`) less their zero points, if that fits into i8.
std::optional<Tensor> centered_weights(OnnxNode& node, size_t i, size_t zero, int64_t axis) {
  const Tensor *w = node.constant(i), *points = node.constant(zero);
  if (!w || (node.has(zero) && !points) || size_of(w->dtype()) != 1) return std::nullopt;
  if (points && points->count() != 1 && (points->rank() != 1 || points->count() != w->dims()[size_t(axis)]))
    return std::nullopt;
  const std::vector<int64_t> from = w->to_ints(), by = points ? points->to_ints() : std::vector<int64_t>{0};
  Tensor out(DType::i8, w->dims());
  const int64_t inner = row_major_strides(w->dims())[size_t(axis)], n = w->dims()[size_t(axis)];
  for (int64_t k = 0; k < out.count(); ++k) {
    const int64_t value = from[size_t(k)] - by[by.size() == 1 ? 0 : size_t(k / inner % n)];
    if (value < std::numeric_limits<int8_t>::min() || value > std::numeric_limits<int8_t>::max()) return std::nullopt;
    out.data<int8_t>()[k] = int8_t(value);
  }
  return out;
}

// Sums of the weights over all axes but those that `sums` has with a size above 1 (its rank is that of the weights or
// less).
Tensor weight_sums(const Tensor& w, Dims sums) {
  Tensor out(DType::i32, sums);
  sums.insert(sums.begin(), size_t(w.rank()) - sums.size(), 1);
  const Dims strides = broadcast_strides(sums, w.dims());
  for_each_index(w.dims(), [&](const Dims& index, int64_t at) {
    int64_t to = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) to += index[axis] * strides[axis];
    out.data<int32_t>()[to] += w.data<int8_t>()[at];
  });
  return out;
}

// acc - zero * sums
ValueId less_zero_point(OnnxNode& node, ValueId acc, ValueId zero, DType dtype, Tensor sums) {
  if (const Tensor* known = node.graph().constant(zero)) {
    for (int64_t i = 0; i < sums.count(); ++i)
      sums.data<int32_t>()[i] = int32_t(uint32_t(sums.data<int32_t>()[i]) * uint32_t(known->to_ints()[0]));
    return node.pointwise(Scalar::sub, {acc, node.constant(std::move(sums))});
  }
  ProgramBuilder b({DType::i32, dtype, DType::i32});
  return node.program(b.result(b.op(Scalar::sub, 0, b.op(Scalar::mul, b.cast(1, DType::i32), 2))),
                      {acc, zero, node.constant(std::move(sums))});
}

bool is_narrow(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }
bool is_zero(OnnxNode& node, size_t zero) {
  if (!node.has(zero)) return true;
  if (!node.constant(zero)) return false;
  for (int64_t point : node.constant(zero)->to_ints())
    if (point != 0) return false;
  return true;
}

// Scalar, row vector or column vector operands are rare here; matrices and batches of them are what these ops are for.
ValueId matmul(OnnxNode& node, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  const int64_t rank_a = node.type(a).rank(), rank_b = node.type(b).rank();
  if (rank_a < 2 || rank_b < 2) node.unsupported("an integer product of ", node.type(a), " and ", node.type(b));
  if (is_narrow(node.type(a).dtype) && (!node.has(a_zero) || is_scalar(node.type(a_zero)))) {
    if (is_zero(node, a_zero) && is_zero(node, b_zero) && node.type(b).dtype == DType::i8)
      return node.add(ops::MatMul{}, {node.input(a), node.input(b)});
    if (auto w = centered_weights(node, b, b_zero, rank_b - 1)) {
      const ValueId acc = node.add(ops::MatMul{}, {node.input(a), node.constant(*w)});
      if (is_zero(node, a_zero)) return acc;
      Dims sums = w->dims();
      sums[size_t(rank_b - 2)] = 1;
      return less_zero_point(node, acc, node.reshape(node.input(a_zero), {}), node.type(a_zero).dtype,
                             weight_sums(*w, sums));
    }
  }
  return node.add(ops::MatMul{}, {centered(node, a, a_zero, rank_a - 2), centered(node, b, b_zero, rank_b - 1)});
}

ValueId convolution(OnnxNode& node, size_t zero, size_t w, size_t w_zero) {
  ops::Conv op = import_conv(node, w);
  const int64_t rank = node.type(0).rank();
  const bool padded = op.pad_mode != ops::PadMode::explicit_pads || op.pads != Dims(op.pads.size(), 0);
  const bool known = is_zero(node, zero) || node.constant(zero);
  if (is_narrow(node.type(0).dtype) && (!node.has(zero) || is_scalar(node.type(zero))) &&
      (!padded || is_zero(node, zero) || (known && op.pad_mode == ops::PadMode::explicit_pads))) {
    if (auto weights = centered_weights(node, w, w_zero, 0)) {
      if (is_zero(node, zero)) return node.add(op, {node.input(0), node.constant(*weights)});
      const ValueId point = node.reshape(node.input(zero), {});
      ValueId x = node.input(0);
      if (padded) {
        ops::Pad pad{Shape(size_t(rank), Dim(0)), Shape(size_t(rank), Dim(0)), ops::PadKind::constant};
        for (size_t i = 0; i + 2 < size_t(rank); ++i) {
          pad.before[i + 2] = Dim(op.pads[i]);
          pad.after[i + 2] = Dim(op.pads[i + size_t(rank) - 2]);
        }
        x = node.add(pad, {x, point});
        op.pads.assign(op.pads.size(), 0);
      }
      Dims sums(size_t(rank) - 1, 1);
      sums[0] = weights->dims()[0];
      const ValueId acc = node.add(op, {x, node.constant(*weights)});
      Dims rows(size_t(rank), 1);
      rows[0] = sums[0];
      return less_zero_point(node, acc, point, node.type(zero).dtype, weight_sums(*weights, rows).reshaped(sums));
    }
  }
  return node.add(op, {centered(node, 0, zero, 1), centered(node, w, w_zero, 0)});
}

}  // namespace

void import_MatMulInteger(OnnxNode& node) { node.set_output(0, matmul(node, 0, 2, 1, 3)); }

void import_QLinearMatMul(OnnxNode& node) {
  const ValueId acc = matmul(node, 0, 2, 3, 5);
  node.set_output(0, requantized(node, acc, 1, 4, 6, node.graph().type(acc).rank() - 1));
}

void import_ConvInteger(OnnxNode& node) { node.set_output(0, convolution(node, 2, 1, 3)); }

void import_QLinearConv(OnnxNode& node) {
  ValueId acc = convolution(node, 2, 3, 5);
  if (node.has(8)) check_length(node, 8, node.graph().type(acc).shape[1], "values of the bias");
  if (node.has(8)) acc = node.pointwise(Scalar::add, {acc, along_axis(node, node.input(8), 1, node.type(0).rank())});
  node.set_output(0, requantized(node, acc, 1, 4, 6, 1));
}

}  // namespace temper
