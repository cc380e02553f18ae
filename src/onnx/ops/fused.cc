// SPDX-License-Identifier: Apache-2.0
// Imports the ops of the domain com.microsoft in which ONNX Runtime's optimizer joins a product or a group
// normalization with what stands beside it: FusedConv, FusedGemm, FusedMatMul, GroupNorm, SkipGroupNorm, BiasAdd and
// BiasSplitGelu.
#include <cmath>

#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "onnx/broadcast.h"
#include "onnx/products.h"

namespace temper::microsoft {

namespace {

// The activation of that name, "" for none; `parameters` are its attributes in the order of ONNX's op, and ONNX's
// defaults where they are fewer.
ValueId activated(OnnxNode& node, ValueId x, const std::string& name, const std::vector<double>& parameters) {
  const DType dtype = node.graph().type(x).dtype;
  const auto parameter = [&](size_t i, double standard) { return i < parameters.size() ? parameters[i] : standard; };
  ProgramBuilder b({dtype});
  if (name.empty()) return x;
  if (name == "Relu") return node.pointwise(Scalar::relu, {x});
  if (name == "Sigmoid") return node.pointwise(Scalar::sigmoid, {x});
  if (name == "Tanh") return node.pointwise(Scalar::tanh, {x});
  if (name == "LeakyRelu") {
    const int below = b.op(Scalar::mul, b.constant(dtype, parameter(0, 0.01f)), 0);
    return node.program(b.result(b.op(Scalar::where, b.op(Scalar::less, 0, b.constant(dtype, 0)), below, 0)), {x});
  }
  if (name == "Clip" && parameters.size() == 2) {
    const int low = b.op(Scalar::max, 0, b.constant(dtype, parameters[0]));
    return node.program(b.result(b.op(Scalar::min, low, b.constant(dtype, parameters[1]))), {x});
  }
  if (name == "HardSigmoid") {
    const int line = b.op(Scalar::add, b.op(Scalar::mul, b.constant(dtype, parameter(0, 0.2f)), 0),
                          b.constant(dtype, parameter(1, 0.5)));
    const int above = b.op(Scalar::max, line, b.constant(dtype, 0));
    return node.program(b.result(b.op(Scalar::min, above, b.constant(dtype, 1))), {x});
  }
  if (name == "Elu") {
    const int below = b.op(Scalar::mul, b.constant(dtype, parameter(0, 1)),
                           b.op(Scalar::sub, b.op(Scalar::exp, 0), b.constant(dtype, 1)));
    return node.program(b.result(b.op(Scalar::where, b.op(Scalar::less, 0, b.constant(dtype, 0)), below, 0)), {x});
  }
  node.unsupported("the activation ", name, " with ", parameters.size(), " parameters");
}

// x * sigmoid(x) where `activation` is 1.
ValueId group_activated(OnnxNode& node, ValueId y) {
  const int64_t activation = node.int_attribute("activation");
  if (activation == 0) return y;
  if (activation != 1) node.unsupported("activation = ", activation);
  const DType dtype = node.graph().type(y).dtype;
  ProgramBuilder b({dtype});
  return node.program(b.result(b.op(Scalar::mul, 0, b.op(Scalar::sigmoid, 0))), {y});
}

// Of a picture [N,C,H,W], or [N,H,W,C], in f32 as the kernels there: normalized, scaled, shifted and activated.
ValueId group_norm(OnnxNode& node, ValueId x) {
  const TensorType type = node.graph().type(x);
  if (type.rank() != 4) node.bad("the input is ", type, "; its rank must be 4");
  const bool last = node.int_attribute("channels_last", 1) != 0;
  const int64_t groups = node.int_attribute("groups");
  const Dim& channels = type.shape[last ? 3 : 1];
  if (groups < 1 || (channels.is_constant() && channels.value() % groups != 0))
    node.bad("groups = ", groups, " does not divide the channels of ", type);
  ValueId y = last ? node.add(ops::Transpose{{0, 3, 1, 2}}, {x}) : x;
  ops::Normalize op;
  op.axes = {1, 2, 3};
  op.groups = groups;
  op.epsilon = node.float_attribute("epsilon", 1e-5f);
  y = node.cast(node.add(op, {y}), node.type(1).dtype);
  y = node.pointwise(Scalar::mul, {y, along_axis(node, node.input(1), 1, 4)});
  y = node.pointwise(Scalar::add, {y, along_axis(node, node.input(2), 1, 4)});
  y = node.cast(group_activated(node, y), type.dtype);
  return last ? node.add(ops::Transpose{{0, 2, 3, 1}}, {y}) : y;
}

}  // namespace

// A fourth input is added before the activation.
void import_FusedConv(OnnxNode& node) {
  ValueId y = conv(node);
  if (node.has(3)) y = node.pointwise(Scalar::add, {y, node.input(3)});
  node.set_output(
      0, activated(node, y, node.string_attribute("activation", ""), node.floats_attribute("activation_params", {})));
}

void import_FusedGemm(OnnxNode& node) {
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (node.has_attribute(name)) parameters.push_back(node.float_attribute(name, 0));
  node.set_output(0, activated(node, gemm(node), node.string_attribute("activation", ""), parameters));
}

void import_FusedMatMul(OnnxNode& node) {
  ops::MatMul op;
  op.transpose_a = node.int_attribute("transA", 0) != 0;
  op.transpose_b = node.int_attribute("transB", 0) != 0;
  // The first axis becomes that of the rows, behind the others.
  const auto with_rows_first = [&](size_t i, const char* name) {
    const int64_t rank = node.type(i).rank();
    if (node.int_attribute(name, 0) == 0 || rank < 3) return node.input(i);
    ops::Transpose order;
    for (int64_t axis = 1; axis + 1 < rank; ++axis) order.perm.push_back(axis);
    order.perm.push_back(0);
    order.perm.push_back(rank - 1);
    return node.add(order, {node.input(i)});
  };
  const ValueId y = product_of(node, op, with_rows_first(0, "transBatchA"), with_rows_first(1, "transBatchB"));
  const double alpha = node.float_attribute("alpha", 1);
  node.set_output(0, alpha == 1 ? y : node.pointwise(Scalar::mul, {y, node.scalar(node.type(0).dtype, alpha)}));
}

// The name of old releases.
void import_TransposeMatMul(OnnxNode& node) { import_FusedMatMul(node); }

void import_GroupNorm(OnnxNode& node) { node.set_output(0, group_norm(node, node.input(0))); }

// The skip connection may have one pixel, or no axes for pixels. Of the sum, too, where it is wanted.
void import_SkipGroupNorm(OnnxNode& node) {
  const TensorType x = node.type(0);
  if (x.rank() != 4) node.bad("the input is ", x, "; its rank must be 4");
  const size_t channel = node.int_attribute("channels_last", 1) != 0 ? 3 : 1;
  ValueId skip = node.input(3);
  if (node.type(3).rank() == 2) {
    Shape shape(4, Dim(1));
    shape[0] = node.type(3).shape[0];
    shape[channel] = node.type(3).shape[1];
    skip = node.reshape(skip, shape);
  }
  ValueId sum = node.pointwise(Scalar::add, {node.input(0), skip});
  if (node.has(4)) sum = node.pointwise(Scalar::add, {sum, along_axis(node, node.input(4), int64_t(channel), 4)});
  if (node.graph().type(sum).shape != x.shape) node.bad("a skip connection of type ", node.type(3));
  node.set_output(0, group_norm(node, sum));
  if (node.wants_output(1)) node.set_output(1, sum);
}

// x + bias + skip
void import_BiasAdd(OnnxNode& node) {
  const ValueId y = node.pointwise(Scalar::add, {node.input(0), node.input(1)});
  node.set_output(0, node.pointwise(Scalar::add, {y, node.input(2)}));
}

// Of x + bias the first half of each row, times the gelu of the second.
void import_BiasSplitGelu(OnnxNode& node) {
  const ValueId sum = node.pointwise(Scalar::add, {node.input(0), node.input(1)});
  const TensorType type = node.graph().type(sum);
  if (type.rank() < 1 || !type.shape.back().is_constant() || type.shape.back().value() % 2 != 0)
    node.bad("rows of ", type, " do not have two halves");
  const int64_t half = type.shape.back().value() / 2;
  ops::Slice left = ops::slice_all(type.shape);
  left.sizes.back() = half;
  ops::Slice right = left;
  right.starts.back() = half;
  ProgramBuilder b({type.dtype, type.dtype});
  const int erf = b.op(Scalar::erf, b.op(Scalar::mul, 1, b.constant(type.dtype, std::sqrt(0.5))));
  const int gelu = b.op(Scalar::mul, b.op(Scalar::mul, 1, b.constant(type.dtype, 0.5)),
                        b.op(Scalar::add, erf, b.constant(type.dtype, 1)));
  node.set_output(0,
                  node.program(b.result(b.op(Scalar::mul, 0, gelu)), {node.add(left, {sum}), node.add(right, {sum})}));
}

}  // namespace temper::microsoft
