// SPDX-License-Identifier: Apache-2.0
// Imports MatMul and Gemm.
#include "graph/ops/matmul.h"

#include "onnx/products.h"

namespace temper {

void import_MatMul(OnnxNode& node) {
  // Vectors become matrices and the added axis is dropped from the result, as numpy does.
  ValueId a = node.input(0), b = node.input(1);
  const bool vector_a = node.type(0).rank() == 1, vector_b = node.type(1).rank() == 1;
  if (vector_a) a = node.reshape(a, {Dim(1), node.type(0).shape[0]});
  if (vector_b) b = node.reshape(b, {node.type(1).shape[0], Dim(1)});
  ValueId y = node.product(ops::MatMul{}, {a, b});
  if (vector_a || vector_b) {
    Shape shape = node.graph().type(y).shape;
    if (vector_b) shape.pop_back();
    if (vector_a) shape.erase(shape.end() - (vector_b ? 1 : 2));
    y = node.reshape(y, shape);
  }
  node.set_output(0, y);
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
