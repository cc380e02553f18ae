// SPDX-License-Identifier: Apache-2.0
// Imports the 8-bit ops of the domain com.microsoft that ONNX Runtime's quantizer writes (its QOperator format), by
// their definition: dequantize, the op on floats, quantize. The passes make integer products of them, as of Q/DQ
// models.
#include "graph/ops/concat.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "onnx/scales.h"
#include "onnx/window.h"

namespace temper {
void import_QuantizeLinear(OnnxNode& node);
void import_DequantizeLinear(OnnxNode& node);
}  // namespace temper

namespace temper::microsoft {

namespace {

// Which inputs hold the scale and the zero point, which may be absent.
struct ScaleInputs {
  size_t scale, zero;
};

ValueId flat_scalar(OnnxNode& node, size_t i) {
  if (node.type(i).shape != Shape{Dim(1)} && node.type(i).rank() != 0)
    node.unsupported("a scale or zero point for each channel (input ", i, " is ", node.type(i), ")");
  return node.reshape(node.input(i), {});
}

ValueId dequantized(OnnxNode& node, size_t i, ScaleInputs by) {
  check_scales(node, by.scale, false);
  ops::Dequantize op;
  op.dtype = DType::f32;
  std::vector<ValueId> inputs{node.input(i), flat_scalar(node, by.scale)};
  if (node.has(by.zero)) inputs.push_back(flat_scalar(node, by.zero));
  return node.add(op, inputs);
}

void set_quantized(OnnxNode& node, ValueId y, ScaleInputs by, DType standard) {
  check_scales(node, by.scale, true);
  ops::Quantize op;
  op.dtype = node.has(by.zero) ? node.type(by.zero).dtype : standard;
  std::vector<ValueId> inputs{y, flat_scalar(node, by.scale)};
  if (node.has(by.zero)) inputs.push_back(flat_scalar(node, by.zero));
  node.set_output(0, node.add(op, inputs));
}

void binary(OnnxNode& node, Scalar op) {
  const ValueId a = dequantized(node, 0, {1, 2}), b = dequantized(node, 3, {4, 5});
  set_quantized(node, node.pointwise(op, {a, b}), {6, 7}, node.type(0).dtype);
}

// The mean of input 0 as `mean` takes it of floats, quantized. It is taken of the integers less their zero point, whose
// sums are exact in any order, and scaled afterwards: a mean that lies in the middle between two steps does so in every
// kernel.
template <class F>
void set_quantized_mean(OnnxNode& node, const F& mean) {
  check_scales(node, 1, false);
  std::vector<ValueId> inputs{node.input(0)};
  std::vector<DType> dtypes{node.type(0).dtype};
  if (node.has(2)) inputs.push_back(flat_scalar(node, 2)), dtypes.push_back(node.type(2).dtype);
  ProgramBuilder b(dtypes);
  int whole = b.cast(0, DType::f32);
  if (node.has(2)) whole = b.op(Scalar::sub, whole, b.cast(1, DType::f32));
  const ValueId y = mean(node.program(b.result(whole), inputs));
  set_quantized(node, node.pointwise(Scalar::mul, {y, flat_scalar(node, 1)}), {3, 4}, node.type(0).dtype);
}

bool channels_last(OnnxNode& node) { return node.int_attribute("channels_last", 0) != 0; }

}  // namespace

void import_QLinearAdd(OnnxNode& node) { binary(node, Scalar::add); }
void import_QLinearMul(OnnxNode& node) { binary(node, Scalar::mul); }

void import_QLinearSigmoid(OnnxNode& node) {
  set_quantized(node, node.pointwise(Scalar::sigmoid, {dequantized(node, 0, {1, 2})}), {3, 4}, node.type(0).dtype);
}

void import_QLinearLeakyRelu(OnnxNode& node) {
  ProgramBuilder b({DType::f32});
  const int negative = b.op(Scalar::less, 0, b.constant(DType::f32, 0)),
            scaled = b.op(Scalar::mul, 0, b.constant(DType::f32, node.float_attribute("alpha", 0.01f)));
  set_quantized(node, node.program(b.result(b.op(Scalar::where, negative, scaled, 0)), {dequantized(node, 0, {1, 2})}),
                {3, 4}, node.type(0).dtype);
}

void import_QLinearSoftmax(OnnxNode& node) {
  const int64_t rank = node.type(0).rank(), opset = node.int_attribute("opset");
  ops::Softmax op;
  op.axis = normalize_axis(node.int_attribute("axis", -1), rank);
  ValueId x = dequantized(node, 0, {1, 2});
  if (opset >= 13 || op.axis + 1 == rank) return set_quantized(node, node.add(op, {x}), {3, 4}, node.type(0).dtype);
  // Before opset 13 all axes from `axis` on are one.
  const Shape shape = node.type(0).shape;
  Dim rows = 1, columns = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    (int64_t(i) < op.axis ? rows : columns) = (int64_t(i) < op.axis ? rows : columns) * shape[i];
  op.axis = 1;
  x = node.add(op, {node.reshape(x, {rows, columns})});
  set_quantized(node, node.reshape(x, shape), {3, 4}, node.type(0).dtype);
}

void import_QLinearGlobalAveragePool(OnnxNode& node) {
  if (node.type(0).rank() < 3) node.bad("the input ", node.type(0), " has no spatial axes");
  const int64_t first = channels_last(node) ? 1 : 2;
  ops::Reduce op;
  op.kind = ops::ReduceKind::mean;
  for (int64_t axis = first; axis < node.type(0).rank() - 2 + first; ++axis) op.axes.push_back(axis);
  set_quantized_mean(node, [&](ValueId x) { return node.add(op, {x}); });
}

// Condition, then data, scale and zero point of each side, then scale and zero point of the result.
void import_QLinearWhere(OnnxNode& node) {
  const ValueId y = node.pointwise(
      Scalar::where, {node.input(0), dequantized(node, 1, {2, 3}), dequantized(node, 4, {5, 6})}, DType::f32);
  set_quantized(node, y, {7, 8}, node.type(1).dtype);
}

// The same as ONNX's, before ONNX had them for 16-bit integers and floats.
void import_QuantizeLinear(OnnxNode& node) { temper::import_QuantizeLinear(node); }
void import_DequantizeLinear(OnnxNode& node) { temper::import_DequantizeLinear(node); }

void import_QLinearAveragePool(OnnxNode& node) {
  const ops::Pool op = import_average_pool(node);
  const bool last = channels_last(node);
  set_quantized_mean(node, [&](ValueId x) {
    return last ? channels_to_end(node, node.add(op, {channels_to_front(node, x)})) : node.add(op, {x});
  });
}

// Scale and zero point of the result, then data, scale and zero point of each input.
void import_QLinearConcat(OnnxNode& node) {
  if (node.input_count() < 5 || node.input_count() % 3 != 2)
    node.bad("it has ", node.input_count(), " inputs; two and three for each tensor are expected");
  ops::Concat op;
  op.axis = normalize_axis(node.int_attribute("axis"), node.type(2).rank());
  std::vector<ValueId> parts;
  for (size_t i = 2; i < node.input_count(); i += 3) parts.push_back(dequantized(node, i, {i + 1, i + 2}));
  set_quantized(node, parts.size() == 1 ? parts[0] : node.add(op, parts), {0, 1}, node.type(2).dtype);
}

// alpha * A B + C, where C is i32 in units of alpha * scale of A * scale of B. B may have a scale for each column.
// Without a scale of the result, it stays float.
void import_QGemm(OnnxNode& node) {
  if (node.type(0).rank() != 2 || node.type(3).rank() != 2)
    node.bad("a product of ", node.type(0), " and ", node.type(3));
  const double alpha = node.float_attribute("alpha", 1);
  ops::MatMul op;
  op.transpose_a = node.int_attribute("transA", 0) != 0;
  op.transpose_b = node.int_attribute("transB", 0) != 0;
  check_scales(node, 4, false);
  ops::Dequantize weights;
  weights.dtype = DType::f32;
  const bool per_column = node.type(4).rank() == 1 && node.type(4).shape != Shape{Dim(1)};
  weights.axis = per_column && !op.transpose_b ? 1 : 0;
  std::vector<ValueId> of_weights{node.input(3), per_column ? node.input(4) : node.reshape(node.input(4), {})};
  if (node.has(5)) of_weights.push_back(per_column ? node.input(5) : node.reshape(node.input(5), {}));
  ValueId y = node.add(op, {dequantized(node, 0, {1, 2}), node.add(weights, of_weights)});
  if (alpha != 1) y = node.pointwise(Scalar::mul, {y, node.scalar(DType::f32, alpha)});
  if (node.has(6)) {
    ValueId unit = node.pointwise(Scalar::mul,
                                  {flat_scalar(node, 1), per_column ? node.input(4) : node.reshape(node.input(4), {})});
    if (alpha != 1) unit = node.pointwise(Scalar::mul, {unit, node.scalar(DType::f32, alpha)});
    y = node.pointwise(Scalar::add, {y, node.pointwise(Scalar::mul, {node.cast(node.input(6), DType::f32), unit})});
  }
  if (!node.has(7)) return node.set_output(0, y);
  set_quantized(node, y, {7, 8}, node.type(0).dtype);
}

}  // namespace temper::microsoft
