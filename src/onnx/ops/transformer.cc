// SPDX-License-Identifier: Apache-2.0
// Imports the ops of the domain com.microsoft that ONNX Runtime's optimizer makes of transformers: attentions, and the
// normalizations, embeddings and activations around them, lowered to ops that are there. Forms and attributes that are
// not computed exactly are refused by name.
#include <cmath>

#include "graph/ops/attention.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/range.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "onnx/heads.h"
#include "onnx/integer.h"
#include "onnx/scales.h"

namespace temper {
void import_RMSNormalization(OnnxNode& node);
}  // namespace temper

namespace temper::microsoft {

namespace {

const Shape& shape_of(OnnxNode& node, ValueId x) { return node.graph().type(x).shape; }

ValueId added(OnnxNode& node, ValueId x, size_t optional_input) {
  return node.has(optional_input) ? node.pointwise(Scalar::add, {x, node.input(optional_input)}) : x;
}

// What is added to the scores of keys that do not take part: 0 where `takes_part`, else `filter`.
ValueId additive(OnnxNode& node, ValueId takes_part, DType dtype, double filter) {
  ProgramBuilder b({node.graph().type(takes_part).dtype});
  const int test = b.op(Scalar::less, b.constant(node.graph().type(takes_part).dtype, 0), 0);
  return node.program(b.result(b.op(Scalar::where, test, b.constant(dtype, 0), b.constant(dtype, filter))),
                      {takes_part});
}

// i32 [B,keys] of 1 up to lengths[b] and 0 behind.
ValueId mask_of_lengths(OnnxNode& node, ValueId lengths, const Dim& keys) {
  if (!keys.is_constant()) node.unsupported("lengths beside an unknown number of keys");
  Tensor positions(DType::i32, {keys.value()});
  for (int64_t j = 0; j < keys.value(); ++j) positions.data<int32_t>()[j] = int32_t(j);
  ProgramBuilder b({DType::i32, DType::i32});
  return node.program(b.result(b.cast(b.op(Scalar::less, 0, 1), DType::i32)),
                      {node.constant(positions), node.reshape(lengths, {shape_of(node, lengths)[0], 1})});
}

// The masks of `input` (which keys take part, as integers) and `bias` (added) as the op's mask; invalid without both.
ValueId masks(OnnxNode& node, size_t input, size_t bias, DType dtype, const Dim& batch, const Dim& keys) {
  const double filter = node.float_attribute("mask_filter_value", -10000);
  ValueId mask;
  if (node.has(input)) {
    ValueId takes_part = node.input(input);
    Shape shape = shape_of(node, takes_part);
    if (shape.size() == 1) {
      if (shape[0] != batch)
        node.unsupported("a mask ", node.type(input), " of start and end positions, or of packed sequences,");
      takes_part = mask_of_lengths(node, takes_part, keys);
      shape = shape_of(node, takes_part);
    }
    if (shape.empty() || shape.size() > 3 || shape.back() != keys) node.unsupported("a mask ", node.type(input));
    shape.insert(shape.end() - 1, 4 - shape.size(), Dim(1));
    if (node.type(input).rank() == 3) shape = {shape[0], 1, shape_of(node, takes_part)[1], keys};
    mask = additive(node, node.reshape(takes_part, shape), dtype, filter);
  }
  if (!node.has(bias)) return mask;
  if (node.type(bias).rank() != 4) node.unsupported("an attention bias ", node.type(bias));
  return mask.valid() ? node.pointwise(Scalar::add, {mask, node.input(bias)}) : node.input(bias);
}

// The attention of q, k and v, with the masks of inputs `mask` and `bias`, is the first output.
void finish(OnnxNode& node, const ops::Attention& op, std::vector<ValueId> inputs, size_t mask, size_t bias) {
  const TensorType q = node.graph().type(inputs[0]);
  const ValueId both = masks(node, mask, bias, q.dtype, q.shape[0], shape_of(node, inputs[1])[1]);
  if (both.valid()) inputs.push_back(both);
  node.set_output(0, node.add(op, inputs));
}

// Puts past keys or values [B,H,S,D], which may be absent, in front of `x` [B,S,H*D]. Returns all as [B,H,S,D].
ValueId with_past(OnnxNode& node, ValueId& x, ValueId past, int64_t heads) {
  ValueId all = split_heads(node, x, heads);
  if (past.valid()) {
    all = node.add(ops::Concat{2}, {past, all});
    x = merge_heads(node, all);
  }
  return all;
}

// Normalizes over the last axis; scale and shift may be absent.
ValueId normalized(OnnxNode& node, ValueId x, bool center, ValueId scale, ValueId shift) {
  ops::Normalize op;
  op.axes = {node.graph().type(x).rank() - 1};
  op.epsilon = node.float_attribute("epsilon", 1e-12f);
  op.center = center;
  ValueId y = node.add(op, {x});
  if (scale.valid()) y = node.pointwise(Scalar::mul, {y, scale});
  return shift.valid() ? node.pointwise(Scalar::add, {y, shift}) : y;
}

void skip_normalization(OnnxNode& node, bool center, size_t bias) {
  if (node.wants_output(1) || node.wants_output(2)) node.unsupported("the output of mean or variance");
  const ValueId sum = added(node, node.pointwise(Scalar::add, {node.input(0), node.input(1)}), bias);
  if (shape_of(node, sum) != node.type(0).shape) node.bad("a skip connection of type ", node.type(1));
  node.set_output(0, normalized(node, sum, center, node.input(2), center ? node.optional_input(3) : ValueId{}));
  if (node.wants_output(3)) node.set_output(3, sum);
}

}  // namespace

// x/2 (1 + erf(x/sqrt(2)))
void import_Gelu(OnnxNode& node) {
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype});
  const int scaled = b.op(Scalar::mul, 0, b.constant(dtype, std::sqrt(0.5)));
  const int one = b.op(Scalar::add, b.op(Scalar::erf, scaled), b.constant(dtype, 1));
  node.set_output(0, node.program(b.result(b.op(Scalar::mul, b.op(Scalar::mul, 0, b.constant(dtype, 0.5)), one)),
                                  {added(node, node.input(0), 1)}));
}
void import_BiasGelu(OnnxNode& node) { microsoft::import_Gelu(node); }

// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
void import_FastGelu(OnnxNode& node) {
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype});
  const int cube = b.op(Scalar::mul, b.op(Scalar::mul, 0, 0), 0);
  const int inner = b.op(Scalar::add, 0, b.op(Scalar::mul, cube, b.constant(dtype, 0.044715)));
  const int t = b.op(Scalar::tanh, b.op(Scalar::mul, inner, b.constant(dtype, std::sqrt(2 / 3.14159265358979323846))));
  const int one = b.op(Scalar::add, t, b.constant(dtype, 1));
  node.set_output(0, node.program(b.result(b.op(Scalar::mul, b.op(Scalar::mul, 0, b.constant(dtype, 0.5)), one)),
                                  {added(node, node.input(0), 1)}));
}

void import_QuickGelu(OnnxNode& node) {
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype});
  const int scaled = b.op(Scalar::mul, 0, b.constant(dtype, node.float_attribute("alpha", 1.702f)));
  node.set_output(0, node.program(b.result(b.op(Scalar::mul, 0, b.op(Scalar::sigmoid, scaled))), {node.input(0)}));
}

void import_SkipLayerNormalization(OnnxNode& node) { skip_normalization(node, true, 4); }
// The same as ONNX's, before ONNX had it; a second output is 1 / sqrt(mean of squares + epsilon).
void import_SimplifiedLayerNormalization(OnnxNode& node) { temper::import_RMSNormalization(node); }

void import_SkipSimplifiedLayerNormalization(OnnxNode& node) { skip_normalization(node, false, 3); }

// Words, positions and segments are looked up, added and normalized.
void import_EmbedLayerNormalization(OnnxNode& node) {
  const Shape ids = node.type(0).shape;
  if (ids.size() != 2) node.bad("words of type ", node.type(0));
  ValueId sum = node.add(ops::Gather{}, {node.input(2), node.input(0)});
  ValueId positions;
  if (node.has(8)) positions = node.add(ops::Gather{}, {node.input(3), node.input(8)});
  else {
    const Shape table = node.type(3).shape;
    positions = node.reshape(part(node, node.input(3), 0, 0, ids[1]), {1, ids[1], table.back()});
  }
  // In the order in which ONNX Runtime adds them.
  sum = node.pointwise(Scalar::add, {sum, positions});
  if (node.has(1) != node.has(4)) node.bad("there are segments or their table, but not both");
  if (node.has(1)) sum = node.pointwise(Scalar::add, {sum, node.add(ops::Gather{}, {node.input(4), node.input(1)})});
  node.set_output(0, normalized(node, sum, true, node.input(5), node.input(6)));
  if (node.int_attribute("mask_index_type", 0) != 0) node.unsupported("mask_index_type");
  if (node.wants_output(1)) {
    // How many words of each row take part: ONNX Runtime says none where there is no mask.
    ops::Reduce count;
    count.axes = {1};
    count.keepdims = false;
    const ValueId mask = node.has(7) ? node.input(7) : node.input(0);
    const DType dtype = node.graph().type(mask).dtype;
    ProgramBuilder b({dtype});
    const int one = node.has(7) ? b.op(Scalar::equal, 0, b.constant(dtype, 1)) : b.op(Scalar::less, 0, 0);
    node.set_output(1, node.add(count, {node.program(b.result(b.cast(one, DType::i32)), {mask})}));
  }
  if (node.wants_output(2)) node.set_output(2, sum);
}

// Pairs of elements are turned by the angle of their position: element i with i + D/2, or 2i with 2i + 1 where
// interleaved. The tables hold cosine and sine for each position and pair.
void import_RotaryEmbedding(OnnxNode& node) {
  const bool interleaved = node.int_attribute("interleaved", 0) != 0, split = node.type(0).rank() == 4;
  const int64_t part_size = node.int_attribute("rotary_embedding_dim", 0);
  int64_t heads = node.int_attribute("num_heads", 0);
  if (node.int_attribute("is_packed_batching", 0) != 0) node.unsupported("is_packed_batching");
  if (node.float_attribute("scale", 1) != 1) node.unsupported("a scale");
  const Shape cos = node.type(2).shape, shape = node.type(0).shape;
  if (cos.size() != 2 || !cos[1].is_constant() || (shape.size() != 3 && shape.size() != 4))
    node.bad("x is ", node.type(0), " and cos_cache ", node.type(2));
  const int64_t half = cos[1].value(), turned = 2 * half;
  if (part_size > 0 && turned != part_size)
    node.bad("rotary_embedding_dim is ", part_size, ", cos_cache ", node.type(2));
  if (part_size > 0 && heads == 0 && !split) node.bad("rotary_embedding_dim without num_heads");
  // Heads on an axis of their own, [B,S,H,D].
  const Dim &batch = shape[0], &positions = split ? shape[2] : shape[1];
  if (!split && heads == 0) {
    if (!shape[2].is_constant() || shape[2].value() % turned != 0) node.bad("x is ", node.type(0));
    heads = shape[2].value() / turned;
  }
  const ValueId x = split ? merge_heads(node, node.input(0)) : node.input(0);
  if (split) heads = shape[1].value();
  const auto angles = [&](size_t table) {
    if (node.type(1).rank() == 2)
      return node.reshape(node.add(ops::Gather{}, {node.input(table), node.input(1)}), {batch, positions, 1, half});
    // One position, where the first element of every row is.
    if (!positions.is_constant()) node.unsupported("a first position beside an unknown number of them");
    Tensor steps(DType::i64, {positions.value()});
    for (int64_t i = 0; i < positions.value(); ++i) steps.data<int64_t>()[i] = i;
    const ValueId all = node.pointwise(Scalar::add, {node.constant(steps), node.reshape(node.input(1), {1})});
    return node.reshape(node.add(ops::Gather{}, {node.input(table), all}), {1, positions, 1, half});
  };
  const ValueId y = rotated(node, x, heads, angles(2), angles(3), interleaved);
  node.set_output(0, split ? split_heads(node, y, heads) : y);
}

namespace {

// What is behind the product of Attention and QAttention: `all` [B,S,...] holds q, k and v of these widths side by
// side. `mask`, `past` and `bias` are the inputs of that meaning.
void attend(OnnxNode& node, ValueId all, const std::vector<int64_t>& sizes, size_t mask, size_t past, size_t bias) {
  ops::Attention op;
  op.heads = op.kv_heads = heads_of(node, "num_heads");
  if (node.int_attribute("do_rotary", 0) != 0) node.unsupported("do_rotary");
  if (node.int_attribute("past_present_share_buffer", 0) != 0) node.unsupported("past_present_share_buffer");
  std::vector<ValueId> inputs;
  int64_t start = 0;
  for (int64_t size : sizes) {
    inputs.push_back(part(node, all, 2, start, size));
    start += size;
  }
  op.scale = scale_of(node, head_size(node, inputs[0], op.heads));
  if (node.int_attribute("unidirectional", 0) != 0) op.right = 0, op.from_end = node.has(past);
  // past and present hold keys, then values, each [B,H,S,D].
  if (node.has(past) && node.type(past).rank() != 5) node.bad("past is ", node.type(past));
  std::vector<ValueId> present;
  for (size_t i : {1, 2}) {
    ValueId own_past;
    if (node.has(past)) {
      const Shape both = node.type(past).shape;
      own_past = node.reshape(part(node, node.input(past), 0, int64_t(i) - 1, 1), {both[1], both[2], both[3], both[4]});
    }
    const ValueId heads = with_past(node, inputs[i], own_past, op.heads);
    if (node.wants_output(1)) {
      Shape one = shape_of(node, heads);
      one.insert(one.begin(), Dim(1));
      present.push_back(node.reshape(heads, one));
    }
  }
  if (node.wants_output(1)) node.set_output(1, node.add(ops::Concat{0}, present));
  finish(node, op, std::move(inputs), mask, bias);
}

// The width of the weights of q, k and v together.
int64_t packed_width(OnnxNode& node) {
  const TensorType &x = node.type(0), &weights = node.type(1);
  if (x.rank() != 3 || weights.rank() != 2 || !weights.shape[1].is_constant())
    node.bad("x is ", x, ", the weights are ", weights);
  return weights.shape[1].value();
}

}  // namespace

// One product gives q, k and v side by side.
void import_Attention(OnnxNode& node) {
  const int64_t width = packed_width(node);
  const auto sizes = node.ints_attribute("qkv_hidden_sizes", {width / 3, width / 3, width / 3});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != width)
    node.bad("qkv_hidden_sizes do not add up to ", width);
  node.int_attribute("rotary_embedding_dim", 0);
  if (node.has(6)) node.unsupported("past_sequence_length");
  const ValueId all = added(node, node.product(ops::MatMul{}, {node.input(0), node.input(1)}), 2);
  attend(node, all, sizes, 3, 4, 5);
}

// The product is one of integers. Inputs: x, weights, bias, scale of x, of the weights, mask, zero points of both,
// past.
void import_QAttention(OnnxNode& node) {
  const int64_t width = packed_width(node);
  if (width % 3 != 0) node.bad("the weights are ", node.type(1));
  const ValueId acc =
      integer_product(node, node.input(0), node.optional_input(6), node.input(1), node.optional_input(7));
  const auto scale = [&](size_t i) {
    check_scales(node, i, false);
    const TensorType& type = node.type(i);
    if (type.rank() == 0 || type.shape == Shape{Dim(1)}) return node.reshape(node.input(i), {});
    if (i == 3 || type.shape != Shape{Dim(width)}) node.unsupported("a scale ", type);
    return node.input(i);
  };
  ProgramBuilder b({DType::i32, DType::f32, DType::f32, DType::f32});
  const int scaled = b.op(Scalar::mul, b.cast(0, DType::f32), b.op(Scalar::mul, 1, 2));
  const ValueId all = node.program(b.result(b.op(Scalar::add, scaled, 3)), {acc, scale(3), scale(4), node.input(2)});
  attend(node, all, {width / 3, width / 3, width / 3}, 5, 8, 9);
}

// Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.
void import_MultiHeadAttention(OnnxNode& node) {
  const TensorType q = node.type(0);
  ops::Attention op;
  op.heads = op.kv_heads = heads_of(node, "num_heads");
  if (q.rank() != 3 || !node.has(1) || !node.has(2)) node.unsupported("packed q, k and v");
  // Keys and values of a cross attention, as they were computed before: [B,H,L,D].
  const bool split = node.type(1).rank() == 4;
  if (node.type(2).rank() != node.type(1).rank() || (!split && node.type(1).rank() != 3))
    node.unsupported("keys ", node.type(1), " and values ", node.type(2));
  if (split &&
      (node.has(6) || node.wants_output(1) || node.wants_output(2) || node.int_attribute("unidirectional", 0) != 0))
    node.unsupported("a cache or unidirectional, beside keys with heads on an axis of their own,");
  for (size_t i = 8; i < node.input_count(); ++i)
    if (node.has(i)) node.unsupported(i == 8 ? "past_sequence_length" : "cache_indirection");
  if (node.has(6) != node.has(7)) node.bad("there are past keys or past values, but not both");
  if (node.wants_output(3)) node.unsupported("the output of scores");
  std::vector<ValueId> inputs;
  Dim start = 0;
  for (size_t i = 0; i < 3; ++i) {
    ValueId x = split && i > 0 ? merge_heads(node, node.input(i)) : node.input(i);
    const Dim width = shape_of(node, x)[2];
    if (node.has(3) && !(split && i > 0))
      x = node.pointwise(Scalar::add, {x, part(node, node.input(3), 0, start, width)});
    start = start + width;
    inputs.push_back(x);
    if (i > 0 && (node.has(6) || node.wants_output(i))) {
      const ValueId all = with_past(node, inputs.back(), node.optional_input(i + 5), op.heads);
      if (node.wants_output(i)) node.set_output(i, all);
    }
  }
  op.scale = scale_of(node, head_size(node, inputs[0], op.heads));
  if (node.int_attribute("unidirectional", 0) != 0) {
    if (node.has(6) && q.shape[1] != node.type(1).shape[1]) node.unsupported("unidirectional beside past keys");
    op.right = 0, op.from_end = node.has(6);
  }
  finish(node, op, std::move(inputs), 4, 5);
}

}  // namespace temper::microsoft
