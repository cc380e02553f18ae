// SPDX-License-Identifier: Apache-2.0
// Imports MatMul and Gemm.
#include "graph/ops/matmul.h"

#include "onnx/products.h"

namespace temper {

ValueId product_of(OnnxNode& node, ops::MatMul op, ValueId a, ValueId b) {
  const TensorType type_a = node.graph().type(a), type_b = node.graph().type(b);
  const bool vector_a = type_a.rank() == 1, vector_b = type_b.rank() == 1;
  if (vector_a) a = node.reshape(a, {Dim(1), type_a.shape[0]}), op.transpose_a = false;
  if (vector_b) b = node.reshape(b, {type_b.shape[0], Dim(1)}), op.transpose_b = false;
  const ValueId y = node.product(op, {a, b});
  if (!vector_a && !vector_b) return y;
  Shape shape = node.graph().type(y).shape;
  if (vector_b) shape.pop_back();
  if (vector_a) shape.erase(shape.end() - (vector_b ? 1 : 2));
  return node.reshape(y, shape);
}

void import_MatMul(OnnxNode& node) {
  node.set_output(0, product_of(node, ops::MatMul{}, node.input(0), node.input(1)));
}

ValueId gemm(OnnxNode& node) {
  ops::MatMul op;
  op.transpose_a = node.int_attribute("transA", 0) != 0;
  op.transpose_b = node.int_attribute("transB", 0) != 0;
  const double alpha = node.float_attribute("alpha", 1), beta = node.float_attribute("beta", 1);
  ValueId y = node.product(op, {node.input(0), node.input(1)});
  node.ignore_attribute("broadcast");  // before opset 7; the shapes say it too
  const DType dtype = node.type(0).dtype;
  if (!is_float(dtype) && (alpha != double(int64_t(alpha)) || beta != double(int64_t(beta))))
    node.unsupported("alpha = ", alpha, " and beta = ", beta, " on ", dtype);
  if (alpha != 1) y = node.pointwise(Scalar::mul, {y, node.scalar(dtype, alpha)});
  if (node.has(2) && beta != 0) {
    ValueId c = node.input(2);
    if (beta != 1) c = node.pointwise(Scalar::mul, {c, node.scalar(dtype, beta)});
    y = node.pointwise(Scalar::add, {y, c});
  }
  return y;
}

void import_Gemm(OnnxNode& node) { node.set_output(0, gemm(node)); }

}  // namespace temper
