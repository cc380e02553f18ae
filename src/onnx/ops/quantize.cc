// SPDX-License-Identifier: Apache-2.0
// Imports QuantizeLinear and DequantizeLinear. One scale, or one along an axis, of integers and of FLOAT8E4M3FN is an
// op of its own, and so are weights in blocks; other blocks and small floats are programs.
#include "graph/ops/quantize.h"

#include <algorithm>
#include <limits>

#include "base/small_types.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/gather.h"
#include "onnx/broadcast.h"
#include "onnx/node.h"
#include "onnx/scales.h"
#include "onnx/small_types.h"
#include "onnx/tensor_proto.h"

namespace temper {

namespace {

struct Granularity {
  int64_t axis = 0, block = 0;  // block 0: one scale, or one for each entry of the axis
  bool scalar = false;
};

Granularity granularity(OnnxNode& node) {
  Granularity g;
  const TensorType &x = node.type(0), &scale = node.type(1);
  const int64_t axis = node.int_attribute("axis", 1), block = node.int_attribute("block_size", 0);
  if (block < 0) node.bad("block_size is ", block);
  g.scalar = scale.rank() == 0 || (scale.shape == Shape{Dim(1)} && (block == 0 || x.shape != scale.shape));
  if (!g.scalar) g.axis = normalize_axis(axis, x.rank()), g.block = block;
  const auto is_one = [](const TensorType& type) { return type.rank() == 0 || type.shape == Shape{Dim(1)}; };
  if (node.has(2) && node.type(2).shape != scale.shape && !(g.scalar && is_one(node.type(2))))
    node.bad("the zero point has type ", node.type(2), " beside a scale ", scale);
  if (!g.scalar && g.block == 0 && scale.rank() != 1)
    node.unsupported("a scale of type ", scale, " without block_size");
  if (g.block == 0) return g;
  const Dim& size = x.shape[size_t(g.axis)];
  if (!size.is_constant())
    node.refuse("blocks along a dimension that is not known: ", x, "; give a fixed shape with --shapes");
  Shape wanted = x.shape;
  wanted[size_t(g.axis)] = Dim((size.value() + g.block - 1) / g.block);
  if (scale.shape != wanted)
    node.bad("a scale of type ", scale, " for blocks of ", g.block, " along axis ", g.axis, " of ", x);
  return g;
}

// Scale or zero point as the graph's ops take them: a scalar or a vector.
ValueId scalar_or_vector(OnnxNode& node, ValueId value) {
  return node.graph().type(value).shape == Shape{Dim(1)} ? node.reshape(value, {}) : value;
}

// Scale or zero point so that it broadcasts with x.
ValueId spread(OnnxNode& node, ValueId value, const Granularity& g) {
  const TensorType x = node.type(0);
  if (g.scalar) return scalar_or_vector(node, value);
  if (g.block == 0) {
    if (node.graph().type(value).shape[0] != x.shape[size_t(g.axis)])
      node.bad("scales ", node.graph().type(value), " along axis ", g.axis, " of ", x);
    return along_axis(node, value, g.axis, x.rank());
  }
  Tensor blocks(DType::i64, {x.shape[size_t(g.axis)].value()});
  for (int64_t i = 0; i < blocks.count(); ++i) blocks.data<int64_t>()[i] = i / g.block;
  ops::Gather pick;
  pick.axis = g.axis;
  return node.add(pick, {value, node.constant(blocks)});
}

IntRange quantized_range(DType dtype) {
  if (is_small_int(dtype)) return range_of_small_int(dtype);
  IntRange range{};
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 2)
      range = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  });
  return range;
}

// The same as the op quantize, with a scale and a zero point for each element; x and the rest broadcast.
ValueId quantized_by_program(OnnxNode& node, const std::vector<ValueId>& inputs, DType to) {
  std::vector<DType> dtypes;
  dtypes.reserve(inputs.size());
  for (ValueId id : inputs) dtypes.push_back(node.graph().type(id).dtype);
  const DType scale = dtypes[1], wide = scale == DType::f64 ? DType::f64 : DType::f32;
  ProgramBuilder b(dtypes);
  auto number = [&](double value) { return b.constant(wide, value); };
  int whole = b.op(Scalar::round, b.cast(b.op(Scalar::div, b.cast(0, scale), 1), wide));
  if (inputs.size() > 2) whole = b.op(Scalar::add, whole, b.cast(2, wide));
  const IntRange range = quantized_range(to);
  whole = b.op(Scalar::where, b.op(Scalar::is_nan, whole), number(0), whole);
  whole = b.op(Scalar::min, b.op(Scalar::max, whole, number(range.least)), number(range.most));
  return node.program(b.result(b.cast(whole, carrier_of(to))), inputs);
}

// x / scale + zero point, which is 0 in all but odd models: adding that would lose a negative zero.
ValueId scaled(OnnxNode& node, const std::vector<ValueId>& inputs) {
  std::vector<DType> dtypes;
  dtypes.reserve(inputs.size());
  for (ValueId id : inputs) dtypes.push_back(node.graph().type(id).dtype);
  const DType scale = dtypes[1], wide = scale == DType::f64 ? DType::f64 : DType::f32;
  ProgramBuilder b(dtypes);
  int quotient = b.cast(b.op(Scalar::div, b.cast(0, scale), 1), wide);
  if (inputs.size() > 2) {
    const int zero = b.cast(2, wide);
    quotient = b.op(Scalar::where, b.op(Scalar::equal, zero, b.constant(wide, 0)), quotient,
                    b.op(Scalar::add, quotient, zero));
  }
  return node.program(b.result(quotient), inputs);
}

// FLOAT8E4M3FN that saturates, with scales of few digits or f32 and no zero point but 0: what products read as it is.
bool is_float8_op(const OnnxNode& node, const Granularity& g, DType small, DType wide) {
  const DType scale = node.type(1).dtype;
  const auto computes = [](DType dtype) { return is_float(dtype) && dtype != DType::f64; };
  if (small != DType::f8e4m3fn || g.block != 0 || !computes(scale) || !computes(wide)) return false;
  if (!node.has(2)) return true;
  const Tensor* zero = node.constant(2);
  if (!zero) return false;
  const std::vector<double> zeros = zero->to_doubles();
  return std::all_of(zeros.begin(), zeros.end(), [](double z) { return z == 0; });
}

// Constant matrices of f32 that are quantized in blocks are weights, whose integers kernels may read.
bool is_blocked_weights(const OnnxNode& node, const Granularity& g, DType to) {
  const Tensor *x = node.constant(0), *scale = node.constant(1);
  return !g.scalar && x && scale && (node.constant(2) || !node.has(2)) && to == DType::f32 &&
         scale->dtype() == DType::f32 && x->rank() == 2 && x->count() > 0 &&
         (is_small_int(x->dtype()) || (is_int(x->dtype()) && size_of(x->dtype()) == 1));
}

}  // namespace

void import_QuantizeLinear(OnnxNode& node) {
  CastOptions options;
  options.saturate = node.int_attribute("saturate", 1) != 0;
  check_scales(node, 1, true);
  const Granularity g = granularity(node);
  DType to = node.has(2) ? node.type(2).dtype : DType::u8;
  if (const int64_t dtype = node.int_attribute("output_dtype", 0)) {
    const DType wanted = dtype_from_onnx(int32_t(dtype), "output_dtype");
    if (node.has(2) && wanted != to) node.bad("output_dtype is ", wanted, " beside a zero point of ", to);
    to = wanted;
  }
  std::vector<ValueId> inputs{node.input(0), computable(node, node.input(1))};
  if (const int64_t precision = node.int_attribute("precision", 0))
    inputs[1] = node.cast(inputs[1], dtype_from_onnx(int32_t(precision), "precision"));
  if (node.has(2)) inputs.push_back(computable(node, node.input(2)));
  const bool to_int = is_small_int(to) || (is_int(to) && size_of(to) <= 2);
  if (!to_int && !small_float_of(to)) node.unsupported("quantization to ", to);
  if (!is_float(node.graph().type(inputs[1]).dtype)) node.bad("the scale has type ", node.type(1));
  if (options.saturate && !node.int_attribute("precision", 0) && is_float8_op(node, g, to, node.type(0).dtype)) {
    ops::Quantize op;
    op.axis = g.axis;
    op.dtype = to;
    return node.set_output(0, node.add(op, {inputs[0], scalar_or_vector(node, inputs[1])}));
  }
  if (to_int && g.block == 0) {
    for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = scalar_or_vector(node, inputs[i]);
    ops::Quantize op;
    op.axis = g.axis;
    op.dtype = carrier_of(to);
    ValueId y = node.add(op, inputs);
    if (is_small_int(to)) {
      const IntRange range = range_of_small_int(to);
      y = node.pointwise(Scalar::max, {y, node.scalar(op.dtype, range.least)});
      y = as_codes(node, node.pointwise(Scalar::min, {y, node.scalar(op.dtype, range.most)}), to);
    }
    return node.set_output(0, y);
  }
  for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = spread(node, inputs[i], g);
  if (!to_int) return node.set_output(0, converted(node, scaled(node, inputs), to, options));
  const ValueId y = quantized_by_program(node, inputs, to);
  node.set_output(0, is_small_int(to) ? as_codes(node, y, to) : y);
}

void import_DequantizeLinear(OnnxNode& node) {
  check_scales(node, 1, false);
  const Granularity g = granularity(node);
  const DType from = node.type(0).dtype, scale = node.type(1).dtype;
  DType to = scale;
  if (const int64_t dtype = node.int_attribute("output_dtype", 0)) to = dtype_from_onnx(int32_t(dtype), "output_dtype");
  if (!is_float(to)) node.bad("dequantization to ", to);
  if (node.has(2) && node.type(2).dtype != from)
    node.bad("the zero point has type ", node.type(2), " beside ", node.type(0));
  std::vector<ValueId> inputs{computable(node, node.input(0)), computable(node, node.input(1))};
  if (node.has(2)) inputs.push_back(computable(node, node.input(2)));
  // Rounded once: the product of an f32 scale is the result, that of others is exact as f32.
  if ((to == DType::f32 || scale != DType::f32) && is_float8_op(node, g, from, to)) {
    ops::Dequantize op;
    op.axis = g.axis;
    op.dtype = to;
    return node.set_output(0, node.add(op, {node.input(0), scalar_or_vector(node, inputs[1])}));
  }
  const bool ints = is_small_int(from) || is_int(from);
  if (ints && g.block == 0) {
    for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = scalar_or_vector(node, inputs[i]);
    ops::Dequantize op;
    op.axis = g.axis;
    op.dtype = to;
    return node.set_output(0, node.add(op, inputs));
  }
  if (is_blocked_weights(node, g, to)) {
    if (node.has(2)) inputs[2] = node.cast(inputs[2], DType::f32);
    ops::DequantizeBlocks op;
    (g.axis == 0 ? op.block_rows : op.block_columns) = g.block;
    return node.set_output(0, node.add(op, inputs));
  }
  if (size_of(from) > 4 || (!ints && !small_float_of(from))) node.bad("dequantization of ", node.type(0));
  std::vector<DType> dtypes;
  dtypes.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) inputs[i] = spread(node, inputs[i], g);
    dtypes.push_back(node.graph().type(inputs[i]).dtype);
  }
  // Rounded once: in f32 where the product is the result, or is exact because both factors have few digits.
  const bool few_digits = size_of(from) == 1 && (scale == DType::f16 || scale == DType::bf16 || scale == DType::f8e8m0);
  const DType wide = size_of(from) < 4 && (to == DType::f32 || few_digits) ? DType::f32 : DType::f64;
  ProgramBuilder b(dtypes);
  int y = b.cast(0, wide);
  if (inputs.size() > 2) y = b.op(Scalar::sub, y, b.cast(2, wide));
  y = b.op(Scalar::mul, y, b.cast(1, wide));
  node.set_output(0, node.program(b.result(b.cast(y, to)), inputs));
}

}  // namespace temper
