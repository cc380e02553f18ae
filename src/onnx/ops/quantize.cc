// SPDX-License-Identifier: Apache-2.0
// Imports QuantizeLinear and DequantizeLinear.
#include "graph/ops/quantize.h"

#include "graph/ops/dequantize.h"
#include "onnx/node.h"
#include "onnx/scales.h"
#include "onnx/tensor_proto.h"

namespace temper {

namespace {

// A one-element vector is a scalar to ONNX; the graph's ops make that a matter of rank.
ValueId scalar_or_vector(OnnxNode& node, size_t i) {
  if (node.type(i).rank() > 1) node.unsupported("blocked quantization: input ", i, " has type ", node.type(i));
  return node.type(i).shape == Shape{Dim(1)} ? node.reshape(node.input(i), {}) : node.input(i);
}

int64_t quantization_axis(OnnxNode& node) {
  if (node.int_attribute("block_size", 0) != 0) node.unsupported("blocked quantization (block_size)");
  const int64_t axis = node.int_attribute("axis", 1), rank = node.type(0).rank();
  const bool scalar = node.type(1).rank() == 0 || node.type(1).shape == Shape{Dim(1)};
  return scalar ? 0 : normalize_axis(axis, rank);
}

}  // namespace

void import_QuantizeLinear(OnnxNode& node) {
  node.ignore_attribute("saturate");  // of 8-bit floats
  check_scales(node, 1, true);
  ops::Quantize op;
  op.axis = quantization_axis(node);
  op.dtype = DType::u8;
  if (const int64_t dtype = node.int_attribute("output_dtype", 0))
    op.dtype = dtype_from_onnx(int32_t(dtype), "output_dtype");
  std::vector<ValueId> inputs{node.input(0), scalar_or_vector(node, 1)};
  if (node.has(2)) {
    op.dtype = node.type(2).dtype;
    inputs.push_back(scalar_or_vector(node, 2));
  }
  if (const int64_t precision = node.int_attribute("precision", 0))
    inputs[1] = node.cast(inputs[1], dtype_from_onnx(int32_t(precision), "precision"));
  if (!is_int(op.dtype) || size_of(op.dtype) > 2) node.unsupported("quantization to ", op.dtype);
  node.set_output(0, node.add(op, inputs));
}

void import_DequantizeLinear(OnnxNode& node) {
  check_scales(node, 1, false);
  ops::Dequantize op;
  op.axis = quantization_axis(node);
  op.dtype = node.type(1).dtype;
  if (const int64_t dtype = node.int_attribute("output_dtype", 0))
    op.dtype = dtype_from_onnx(int32_t(dtype), "output_dtype");
  std::vector<ValueId> inputs{node.input(0), scalar_or_vector(node, 1)};
  if (node.has(2)) inputs.push_back(scalar_or_vector(node, 2));
  node.set_output(0, node.add(op, inputs));
}

}  // namespace temper
