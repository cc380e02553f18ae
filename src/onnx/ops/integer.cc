// SPDX-License-Identifier: Apache-2.0
// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv: matmul and conv on i32 after the zero points are taken off.
// Padding is added after that, so that it stands for the zero point, as ONNX wants.
#include "onnx/broadcast.h"
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
  return node.program(b.result(b.op(Scalar::sub, b.cast(0, DType::i32), b.cast(1, DType::i32))), {node.input(i), point});
}

ValueId scalar_input(OnnxNode& node, size_t i, std::string_view what) {
  if (!is_scalar(node.type(i))) node.unsupported(what, " with the type ", node.type(i), "; only a scalar is supported");
  return node.reshape(node.input(i), {});
}

// acc * (scale_a * scale_b) quantized by y's scale and zero point. `scale_b` is a vector along axis `axis` of y or a scalar.
ValueId requantized(OnnxNode& node, ValueId acc, size_t a, size_t b, size_t y, int64_t axis) {
  const int64_t rank = node.graph().type(acc).rank();
  ValueId scale_b = node.input(b);
  if (is_scalar(node.type(b))) scale_b = node.reshape(scale_b, {});
  else if (node.type(b).rank() == 1) scale_b = along_axis(node, scale_b, axis, rank);
  else node.unsupported("scales of the type ", node.type(b), "; only a scalar or a vector is supported");
  const ValueId scale_a = scalar_input(node, a, "the scale of the first input");
  ProgramBuilder p({DType::i32, node.type(a).dtype, node.type(b).dtype});
  const int scale = p.op(Scalar::mul, p.cast(1, DType::f32), p.cast(2, DType::f32));
  const ValueId real = node.program(p.result(p.op(Scalar::mul, p.cast(0, DType::f32), scale)), {acc, scale_a, scale_b});
  ops::Quantize op;
  op.dtype = node.type(y + 1).dtype;
  return node.add(op, {real, node.cast(scalar_input(node, y, "the scale of the output"), DType::f32),
                       scalar_input(node, y + 1, "the zero point of the output")});
}

// Scalar, row vector or column vector operands are rare here; matrices and batches of them are what these ops are for.
ValueId matmul(OnnxNode& node, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  const int64_t rank_a = node.type(a).rank(), rank_b = node.type(b).rank();
  if (rank_a < 2 || rank_b < 2) node.unsupported("an integer product of ", node.type(a), " and ", node.type(b));
  return node.add(ops::MatMul{}, {centered(node, a, a_zero, rank_a - 2), centered(node, b, b_zero, rank_b - 1)});
}

}  // namespace

void import_MatMulInteger(OnnxNode& node) { node.set_output(0, matmul(node, 0, 2, 1, 3)); }

void import_QLinearMatMul(OnnxNode& node) {
  const ValueId acc = matmul(node, 0, 2, 3, 5);
  node.set_output(0, requantized(node, acc, 1, 4, 6, node.graph().type(acc).rank() - 1));
}

void import_ConvInteger(OnnxNode& node) {
  const ops::Conv op = import_conv(node, 1);
  node.set_output(0, node.add(op, {centered(node, 0, 2, 1), centered(node, 1, 3, 0)}));
}

void import_QLinearConv(OnnxNode& node) {
  const ops::Conv op = import_conv(node, 3);
  ValueId acc = node.add(op, {centered(node, 0, 2, 1), centered(node, 3, 5, 0)});
  if (node.has(8)) acc = node.pointwise(Scalar::add, {acc, along_axis(node, node.input(8), 1, node.type(0).rank())});
  node.set_output(0, requantized(node, acc, 1, 4, 6, 1));
}

}  // namespace temper
