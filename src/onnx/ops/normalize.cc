// SPDX-License-Identifier: Apache-2.0
// Imports LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization, LpNormalization and LRN. The
// affine part is pointwise arithmetic after the op.
#include "graph/ops/normalize.h"

#include "graph/ops/lrn.h"
#include "graph/ops/reduce.h"
#include "onnx/broadcast.h"

namespace temper {

namespace {

ops::Normalize normalize_from(int64_t axis, int64_t rank, double epsilon, bool center = true) {
  ops::Normalize op;
  for (int64_t i = axis; i < rank; ++i) op.axes.push_back(i);
  op.epsilon = epsilon;
  op.center = center;
  return op;
}

ValueId affine(OnnxNode& node, ValueId y, ValueId scale, ValueId shift) {
  if (scale.valid()) y = node.pointwise(Scalar::mul, {y, scale});
  if (shift.valid()) y = node.pointwise(Scalar::add, {y, shift});
  return y;
}

DType stash_dtype(OnnxNode& node) {
  const int64_t stash = node.int_attribute("stash_type", 1);
  if (stash != 1) node.refuse("stash_type = ", stash, "; only 1 (float) is supported");
  return DType::f32;
}

// 1 / sqrt(x + epsilon)
ValueId inverse_root(OnnxNode& node, ValueId x, double epsilon) {
  const DType dtype = node.graph().type(x).dtype;
  ProgramBuilder b({dtype});
  const int divisor = b.op(Scalar::sqrt, b.op(Scalar::add, 0, b.constant(dtype, epsilon)));
  return node.program(b.result(b.op(Scalar::reciprocal, divisor)), {x});
}

}  // namespace

void import_LayerNormalization(OnnxNode& node) {
  const TensorType x = node.type(0);
  const int64_t axis = normalize_axis(node.int_attribute("axis", -1), x.rank());
  const double epsilon = node.float_attribute("epsilon", 1e-5f);
  const DType stash = stash_dtype(node);
  const ops::Normalize op = normalize_from(axis, x.rank(), epsilon);
  node.set_output(0, affine(node, node.add(op, {node.input(0)}), node.input(1), node.optional_input(2)));
  if (!node.wants_output(1) && !node.wants_output(2)) return;
  // Mean and 1/sqrt(variance + epsilon) are outputs for training.
  ops::Reduce reduce;
  reduce.kind = ops::ReduceKind::mean;
  reduce.axes = op.axes;
  const ValueId wide = node.cast(node.input(0), stash), mean = node.add(reduce, {wide});
  node.set_output(1, mean);
  if (!node.wants_output(2)) return;
  ProgramBuilder square({stash, stash});
  const int difference = square.op(Scalar::sub, 0, 1);
  const ValueId variance =
      node.add(reduce, {node.program(square.result(square.op(Scalar::mul, difference, difference)), {wide, mean})});
  node.set_output(2, inverse_root(node, variance, epsilon));
}

void import_RMSNormalization(OnnxNode& node) {
  const TensorType x = node.type(0);
  const int64_t axis = normalize_axis(node.int_attribute("axis", -1), x.rank());
  const DType stash = stash_dtype(node);
  const double epsilon = node.float_attribute("epsilon", 1e-5f);
  const ops::Normalize op = normalize_from(axis, x.rank(), epsilon, false);
  // The scale's dtype is that of the output and may differ from that of x.
  const ValueId y = node.cast(node.add(op, {node.input(0)}), node.type(1).dtype);
  node.set_output(0, affine(node, y, node.input(1), {}));
  if (!node.wants_output(1)) return;
  // Which only SimplifiedLayerNormalization has.
  ops::Reduce mean;
  mean.kind = ops::ReduceKind::mean;
  mean.axes = op.axes;
  const ValueId wide = node.cast(node.input(0), stash);
  node.set_output(1, inverse_root(node, node.add(mean, {node.pointwise(Scalar::mul, {wide, wide})}), epsilon));
}

void import_InstanceNormalization(OnnxNode& node) {
  node.ignore_attribute("consumed_inputs");
  const TensorType x = node.type(0);
  if (x.rank() < 3) node.bad("the input is ", x, "; its rank must be 3 or more");
  const ValueId y = node.add(normalize_from(2, x.rank(), node.float_attribute("epsilon", 1e-5f)), {node.input(0)});
  node.set_output(
      0, affine(node, y, along_axis(node, node.input(1), 1, x.rank()), along_axis(node, node.input(2), 1, x.rank())));
}

void import_GroupNormalization(OnnxNode& node) {
  const TensorType x = node.type(0);
  const int64_t groups = node.int_attribute("num_groups");
  if (x.rank() < 2) node.bad("the input is ", x, "; its rank must be 2 or more");
  stash_dtype(node);
  if (groups < 1 || (x.shape[1].is_constant() && x.shape[1].value() % groups != 0))
    node.bad("num_groups ", groups, " does not divide the channels of ", x);
  ops::Normalize op = normalize_from(1, x.rank(), node.float_attribute("epsilon", 1e-5f));
  op.groups = groups;
  const ValueId y = node.add(op, {node.input(0)});
  node.set_output(
      0, affine(node, y, along_axis(node, node.input(1), 1, x.rank()), along_axis(node, node.input(2), 1, x.rank())));
}

// ONNX's function body adds a constant of f32 to what it computes. In other floats it is one of their own; what has
// fewer digits is computed in f32.
void import_MeanVarianceNormalization(OnnxNode& node) {
  const DType dtype = node.type(0).dtype;
  if (dtype == DType::f32) return node.use_function_body();
  const ValueId x = node.cast(node.input(0), dtype == DType::f64 ? DType::f64 : DType::f32);
  const ValueId y = node.body(
      "(x, axes, epsilon) => (y) { mean = ReduceMean(x, axes) squares = Mul(x, x) mean_of_squares = "
      "ReduceMean(squares, axes) "
      "square = Mul(mean, mean) variance = Sub(mean_of_squares, square) deviation = Sqrt(variance) off = Sub(x, mean) "
      "divisor = Add(deviation, epsilon) y = Div(off, divisor) }",
      {x, node.ints(node.ints_attribute("axes", {0, 2, 3})), node.scalar(node.graph().type(x).dtype, 1e-9)})[0];
  node.set_output(0, node.cast(y, dtype));
}

// A vector of zeros stays one.
void import_LpNormalization(OnnxNode& node) {
  const int64_t p = node.int_attribute("p", 2);
  if (p != 1 && p != 2) node.bad("p = ", p, "; ONNX allows 1 and 2");
  ops::Reduce op;
  op.kind = p == 1 ? ops::ReduceKind::l1 : ops::ReduceKind::l2;
  op.axes = {normalize_axis(node.int_attribute("axis", -1), node.type(0).rank())};
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype, dtype});
  const int zero = b.constant(dtype, 0);
  const int result = b.op(Scalar::where, b.op(Scalar::equal, 1, zero), zero, b.op(Scalar::div, 0, 1));
  node.set_output(0, node.program(b.result(result), {node.input(0), node.add(op, {node.input(0)})}));
}

void import_LRN(OnnxNode& node) {
  ops::Lrn op;
  op.size = node.int_attribute("size");
  op.alpha = node.float_attribute("alpha", 1e-4f);
  op.beta = node.float_attribute("beta", 0.75);
  op.bias = node.float_attribute("bias", 1);
  node.set_output(0, node.add(op, {node.input(0)}));
}

}  // namespace temper
