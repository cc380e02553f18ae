// SPDX-License-Identifier: Apache-2.0
// Imports MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv. Products of 8-bit operands wherever that is exact:
// the zero point of constant weights is taken off beforehand where the difference fits into i8, else the weights move
// to the middle of i8 and what they still lack is added as offset * (sum of the data); the zero point of the input is
// taken off afterwards, as zero * (sum of the weights); padding stands for the zero point, as ONNX wants, so it is
// added before. What is left is computed on i32 after the zero points are taken off.
#include "onnx/integer.h"

#include <algorithm>
#include <limits>

#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pad.h"
#include "graph/ops/quantize.h"
#include "graph/ops/reduce.h"
#include "graph/ops/slice.h"
#include "graph/ops/window.h"
#include "onnx/broadcast.h"
#include "onnx/scales.h"
#include "onnx/window.h"

namespace temper {

namespace microsoft {
void import_QLinearConv(OnnxNode& node);
}

namespace {

bool is_scalar(const TensorType& type) { return type.rank() == 0 || type.shape == Shape{Dim(1)}; }

// `x` as i32 less its zero point, if it has one. A vector of zero points belongs to axis `axis` of x.
ValueId centered(OnnxNode& node, ValueId x, ValueId zero, int64_t axis) {
  const TensorType own = node.graph().type(x);
  if (!zero.valid()) return node.cast(x, DType::i32);
  const TensorType type = node.graph().type(zero);
  ValueId point = zero;
  if (is_scalar(type)) point = node.reshape(point, {});
  else if (type.rank() == 1) point = along_axis(node, point, axis, own.rank());
  else if (type.rank() != own.rank()) node.bad("the zero point ", type, " of an input ", own);
  ProgramBuilder b({own.dtype, type.dtype});
  return node.program(b.result(b.op(Scalar::sub, b.cast(0, DType::i32), b.cast(1, DType::i32))), {x, point});
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

// Constant 8-bit weights less their zero points: `values`, and `offset` more, of each channel or of all.
struct CenteredWeights {
  Tensor values;                // i8
  std::vector<int64_t> offset;  // none where the difference fits into i8

  int64_t offset_of(int64_t channel) const {
    return offset.empty() ? 0 : offset[offset.size() == 1 ? 0 : size_t(channel)];
  }
};

// `zero`: absent, one for all, or one for each channel, on axis `axis`.
std::optional<CenteredWeights> centered_weights(OnnxNode& node, ValueId weights, ValueId zero, int64_t axis) {
  const Tensor *w = node.graph().constant(weights), *points = node.graph().constant(zero);
  if (!w || (zero.valid() && !points) || size_of(w->dtype()) != 1) return std::nullopt;
  if (points && points->count() != 1 && (points->rank() != 1 || points->count() != w->dims()[size_t(axis)]))
    return std::nullopt;
  const std::vector<int64_t> from = w->to_ints(), by = points ? points->to_ints() : std::vector<int64_t>{0};
  CenteredWeights out{Tensor(DType::i8, w->dims()), {}};
  const int64_t inner = row_major_strides(w->dims())[size_t(axis)], n = w->dims()[size_t(axis)];
  const auto point_of = [&](int64_t k) { return by[by.size() == 1 ? 0 : size_t(k / inner % n)]; };
  const int64_t low = std::numeric_limits<int8_t>::min(), high = std::numeric_limits<int8_t>::max();
  bool fits = true;
  for (int64_t k = 0; fits && k < w->count(); ++k) {
    const int64_t value = from[size_t(k)] - point_of(k);
    fits = value >= low && value <= high;
    if (fits) out.values.data<int8_t>()[k] = int8_t(value);
  }
  if (fits) return out;
  const int64_t middle = w->dtype() == DType::u8 ? -low : 0;
  for (int64_t point : by) out.offset.push_back(middle - point);
  for (int64_t k = 0; k < w->count(); ++k) out.values.data<int8_t>()[k] = int8_t(from[size_t(k)] - middle);
  return out;
}

// Sums of the weights over all axes but those that `sums` has with a size above 1 (its rank is that of the weights or
// less); the last of these is the one of the channels.
Tensor weight_sums(const CenteredWeights& w, Dims sums) {
  Tensor out(DType::i32, sums);
  sums.insert(sums.begin(), size_t(w.values.rank()) - sums.size(), 1);
  const Dims strides = broadcast_strides(sums, w.values.dims());
  const int64_t channels = *std::max_element(sums.begin(), sums.end());
  for_each_index(w.values.dims(), [&](const Dims& index, int64_t at) {
    int64_t to = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) to += index[axis] * strides[axis];
    out.data<int32_t>()[to] += int32_t(w.values.data<int8_t>()[at] + w.offset_of(to % channels));
  });
  return out;
}

// acc + offset * (sums of the data that meet the weights), where the weights have an offset, along `axis` of acc.
ValueId with_offset(OnnxNode& node, ValueId acc, const CenteredWeights& w, ValueId data_sums, int64_t axis) {
  Dims dims(size_t(node.graph().type(acc).rank()), 1);
  dims[size_t(axis)] = int64_t(w.offset.size());
  Tensor offset(DType::i32, dims);
  for (size_t i = 0; i < w.offset.size(); ++i) offset.data<int32_t>()[i] = int32_t(w.offset[i]);
  ProgramBuilder b({DType::i32, DType::i32, DType::i32});
  return node.program(b.result(b.op(Scalar::add, 0, b.op(Scalar::mul, 1, 2))),
                      {acc, data_sums, node.constant(std::move(offset))});
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
bool is_zero(OnnxNode& node, ValueId zero) {
  if (!zero.valid()) return true;
  const Tensor* points = node.graph().constant(zero);
  if (!points) return false;
  for (int64_t point : points->to_ints())
    if (point != 0) return false;
  return true;
}

// Of `x`, which is input 0 with its channels on axis 1.
ValueId convolution(OnnxNode& node, ValueId x, size_t zero, size_t w, size_t w_zero) {
  ops::Conv op = import_conv(node, w);
  const int64_t rank = node.type(0).rank();
  const bool padded = op.pad_mode != ops::PadMode::explicit_pads || op.pads != Dims(op.pads.size(), 0);
  const ValueId point_of_x = node.optional_input(zero), point_of_w = node.optional_input(w_zero);
  if (is_narrow(node.type(0).dtype) && (!node.has(zero) || is_scalar(node.type(zero))) &&
      (!padded || is_zero(node, point_of_x) || op.pad_mode == ops::PadMode::explicit_pads)) {
    const auto weights = centered_weights(node, node.input(w), point_of_w, 0);
    if (weights && (weights->offset.empty() || op.group == 1)) {
      // Where the data are 0, so is what pads them.
      const bool is_centered = is_zero(node, point_of_x);
      ValueId point;
      if (!is_centered) point = node.reshape(node.input(zero), {});
      if (padded && !is_centered) {
        ops::Pad pad{Shape(size_t(rank), Dim(0)), Shape(size_t(rank), Dim(0)), ops::PadKind::constant};
        for (size_t i = 0; i + 2 < size_t(rank); ++i) {
          pad.before[i + 2] = Dim(op.pads[i]);
          pad.after[i + 2] = Dim(op.pads[i + size_t(rank) - 2]);
        }
        x = node.add(pad, {x, point});
        op.pads.assign(op.pads.size(), 0);
      }
      Dims sums(size_t(rank) - 1, 1);
      sums[0] = weights->values.dims()[0];
      ValueId acc = node.add(op, {x, node.constant(weights->values)});
      if (!weights->offset.empty()) {
        // One channel is enough; kernels of integers want a vector of them.
        Dims dims = weights->values.dims();
        dims[0] = 16;
        Tensor ones(DType::i8, dims);
        std::fill_n(ones.data<int8_t>(), ones.count(), int8_t(1));
        const ValueId data_sums = node.add(op, {x, node.constant(std::move(ones))});
        ops::Slice first;
        first.sizes = node.graph().type(data_sums).shape;
        first.sizes[1] = Dim(1);
        first.starts.assign(first.sizes.size(), 0);
        first.steps.assign(first.sizes.size(), 1);
        acc = with_offset(node, acc, *weights, node.add(first, {data_sums}), 1);
      }
      if (is_centered) return acc;
      Dims rows(size_t(rank), 1);
      rows[0] = sums[0];
      return less_zero_point(node, acc, point, node.type(zero).dtype, weight_sums(*weights, rows).reshaped(sums));
    }
  }
  return node.add(op, {centered(node, x, point_of_x, 1), centered(node, node.input(w), point_of_w, 0)});
}

}  // namespace

// Scalar, row vector or column vector operands are rare here; matrices and batches of them are what these ops are for.
ValueId integer_product(OnnxNode& node, ValueId a, ValueId a_zero, ValueId b, ValueId b_zero) {
  const auto type = [&](ValueId id) { return node.graph().type(id); };
  const int64_t rank_a = type(a).rank(), rank_b = type(b).rank();
  if (rank_a < 2 || rank_b < 2) node.unsupported("an integer product of ", type(a), " and ", type(b));
  if (is_narrow(type(a).dtype) && (!a_zero.valid() || is_scalar(type(a_zero)))) {
    if (is_zero(node, a_zero) && is_zero(node, b_zero) && type(b).dtype == DType::i8)
      return node.add(ops::MatMul{}, {a, b});
    if (const auto w = centered_weights(node, b, b_zero, rank_b - 1)) {
      ValueId acc = node.add(ops::MatMul{}, {a, node.constant(w->values)});
      if (!w->offset.empty()) {
        const ops::Reduce along_row{.kind = ops::ReduceKind::sum, .axes = {rank_a - 1}, .keepdims = true};
        const ValueId data_sums = node.add(along_row, {node.cast(a, DType::i32)});
        acc = with_offset(node, acc, *w, data_sums, node.graph().type(acc).rank() - 1);
      }
      if (is_zero(node, a_zero)) return acc;
      Dims sums = w->values.dims();
      sums[size_t(rank_b - 2)] = 1;
      return less_zero_point(node, acc, node.reshape(a_zero, {}), type(a_zero).dtype, weight_sums(*w, sums));
    }
  }
  return node.add(ops::MatMul{}, {centered(node, a, a_zero, rank_a - 2), centered(node, b, b_zero, rank_b - 1)});
}

static ValueId product_of_inputs(OnnxNode& node, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  return integer_product(node, node.input(a), node.optional_input(a_zero), node.input(b), node.optional_input(b_zero));
}

void import_MatMulInteger(OnnxNode& node) { node.set_output(0, product_of_inputs(node, 0, 2, 1, 3)); }

void import_QLinearMatMul(OnnxNode& node) {
  const ValueId acc = product_of_inputs(node, 0, 2, 3, 5);
  node.set_output(0, requantized(node, acc, 1, 4, 6, node.graph().type(acc).rank() - 1));
}

void import_ConvInteger(OnnxNode& node) { node.set_output(0, convolution(node, node.input(0), 2, 1, 3)); }

static ValueId quantized_convolution(OnnxNode& node, ValueId x) {
  ValueId acc = convolution(node, x, 2, 3, 5);
  if (node.has(8)) check_length(node, 8, node.graph().type(acc).shape[1], "values of the bias");
  if (node.has(8)) acc = node.pointwise(Scalar::add, {acc, along_axis(node, node.input(8), 1, node.type(0).rank())});
  return requantized(node, acc, 1, 4, 6, 1);
}

void import_QLinearConv(OnnxNode& node) { node.set_output(0, quantized_convolution(node, node.input(0))); }

// The channels may be the last axis of the data.
void microsoft::import_QLinearConv(OnnxNode& node) {
  if (node.int_attribute("channels_last", 0) == 0) return temper::import_QLinearConv(node);
  if (node.type(0).rank() < 3) node.bad("the input ", node.type(0), " has no spatial axes");
  node.set_output(0, channels_to_end(node, quantized_convolution(node, channels_to_front(node, node.input(0)))));
}

}  // namespace temper
