// SPDX-License-Identifier: Apache-2.0
// Imports GroupQueryAttention of com.microsoft, as exporters of language models write it: each row of the batch has
// past keys and values of a length that is data, behind which its new ones are put. What stands behind those is what
// the past holds there, as where past and present share a buffer.
#include <limits>

#include "graph/ops/append.h"
#include "graph/ops/attention.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/pad.h"
#include "graph/ops/range.h"
#include "graph/ops/shape.h"
#include "graph/ops/slice.h"
#include "onnx/heads.h"

namespace temper::microsoft {

namespace {

// The size of an axis, of rank 0.
ValueId size_along(OnnxNode& node, ValueId x, int64_t axis) {
  ops::ShapeOf size;
  size.start = axis;
  size.end = axis + 1;
  return node.reshape(node.add(size, {x}), {});
}

// 0, 1, ... of an axis of x, on the axis `along` of four.
ValueId counted(OnnxNode& node, ValueId x, int64_t axis, size_t along) {
  const ValueId all = node.add(ops::Range{}, {node.number(0), size_along(node, x, axis), node.number(1)});
  Shape shape(4, Dim(1));
  shape[along] = node.graph().type(all).shape[0];
  return node.reshape(all, shape);
}

struct Rows {
  Dim batch, count;         // B, S
  std::optional<Dim> keys;  // the keys that there are then at most, where that is known
  ValueId total, added;     // the same, and S, of rank 0
  ValueId lengths, past;    // i64 [B]: the keys of each row, and those of them that are past
  bool prompt = false;      // there is no past
};

Rows rows_of(OnnxNode& node, ValueId q) {
  Rows rows;
  const Shape shape = node.graph().type(q).shape;
  rows.batch = shape[0];
  rows.count = shape[1];
  const Contents* total = node.contents(6);
  if (node.type(6).shape != Shape{} && node.type(6).shape != Shape{Dim(1)})
    node.bad("total_sequence_length is ", node.type(6));
  if (total) rows.keys = total->front();
  rows.total = node.reshape(node.cast(node.input(6), DType::i64), {});
  rows.added = size_along(node, q, 1);
  const ValueId last = node.reshape(node.cast(node.input(5), DType::i64), {rows.batch});
  rows.lengths = node.pointwise(Scalar::add, {last, node.number(1)});
  if (!node.has(3) && total && rows.count != total->front())
    node.unsupported("a total_sequence_length that is not that of q, without past keys,");
  rows.prompt = !node.has(3) || (total && rows.count == total->front());
  // Rows of a first prompt may be shorter than the longest, and have nothing past all the same.
  ProgramBuilder b(std::vector<DType>(3, DType::i64));
  const int zero = b.constant(DType::i64, 0), before = b.op(Scalar::sub, 0, 1);
  const int past = rows.prompt            ? b.op(Scalar::mul, 0, zero)
                   : rows.count == Dim(1) ? before
                                          : b.op(Scalar::where, b.op(Scalar::equal, 1, 2), zero, before);
  rows.past = node.program(b.result(past), {rows.lengths, rows.added, rows.total});
  return rows;
}

// past[b] + i, [B,1,S,1]
ValueId positions_of(OnnxNode& node, ValueId q, const Rows& rows) {
  return node.pointwise(Scalar::add, {node.reshape(rows.past, {rows.batch, 1, 1, 1}), counted(node, q, 1, 2)});
}

// The past [B,G,P,D] of an input with new rows x [B,S,G*D] behind each row's own length, as [B,G,keys,D].
ValueId with_rows(OnnxNode& node, size_t input, ValueId x, int64_t heads, const Rows& rows) {
  const ValueId added = split_heads(node, x, heads);
  if (!node.has(input)) return added;
  const TensorType past = node.type(input), one = node.graph().type(added);
  if (past.rank() != 4 || past.shape[1] != Dim(heads) || past.shape[3] != one.shape[3])
    node.bad("past keys or values are ", past, ", new ones ", one);
  if (past.dtype != one.dtype) node.unsupported("a cache of ", past.dtype, " beside keys of ", one.dtype);
  const Dim all = rows.batch * Dim(heads), held = past.shape[2];
  ValueId y = node.reshape(node.input(input), {all, held, past.shape[3]});
  // There is place for whichever is more, the keys that there will be or those that the past has place for.
  ops::Pad pad;
  pad.before.assign(3, Dim(0));
  pad.after = pad.before;
  if (rows.keys) {
    const bool longer = (*rows.keys - held).is_non_negative();
    pad.after[1] = longer ? *rows.keys - held : dim_max(*rows.keys - held, 0);
  } else pad.after[1] = rows.count;
  if (pad.after[1] != Dim(0)) y = node.add(pad, {y});
  if (!rows.keys) {
    const ValueId end = node.pointwise(Scalar::max, {rows.total, size_along(node, node.input(input), 2)});
    y = node.add(ops::Slice{}, {y, node.ints({0}), node.reshape(end, {1}), node.ints({1}), ValueId{}});
  }
  const ValueId lengths = node.reshape(
      node.add(ops::Broadcast{{rows.batch, Dim(heads)}}, {node.reshape(rows.past, {rows.batch, 1})}), {all});
  y = node.add(ops::Append{}, {y, node.reshape(added, {all, rows.count, past.shape[3]}), lengths});
  return node.reshape(y, {rows.batch, heads, node.graph().type(y).shape[1], past.shape[3]});
}

// The input attention_bias for all keys, of which the first `front` are none that it knows.
ValueId bias_of(OnnxNode& node, ValueId keys, int64_t front) {
  const ValueId bias = node.input(10);
  if (node.type(10).rank() != 4) node.bad("attention_bias is ", node.type(10));
  ProgramBuilder b({DType::i64, DType::i64});
  const int more = b.op(Scalar::sub, b.op(Scalar::sub, 0, 1), b.constant(DType::i64, double(front)));
  const ValueId missing = node.program(b.result(more), {size_along(node, keys, 1), size_along(node, bias, 3)});
  const ValueId amounts = node.add(ops::Concat{0}, {node.ints({front}), node.reshape(missing, {1})});
  return node.add(ops::Pad{}, {bias, node.scalar(node.type(10).dtype, 0), amounts, node.ints({3})});
}

}  // namespace

void import_GroupQueryAttention(OnnxNode& node) {
  ops::Attention op;
  op.heads = heads_of(node, "num_heads");
  op.kv_heads = heads_of(node, "kv_num_heads");
  const bool packed = !node.has(1) && !node.has(2);
  if (node.has(1) != node.has(2) || node.has(3) != node.has(4)) node.bad("there are keys or values, but not both");
  if (node.type(0).rank() != 3) node.bad("q is ", node.type(0));
  for (size_t i = 12; i < node.input_count(); ++i)
    if (node.has(i)) node.unsupported("input ", i);
  if (node.wants_output(3)) node.unsupported("the output of scores");
  if (node.int_attribute("qk_output", 0) != 0) node.unsupported("qk_output");
  const std::string k_quant = node.string_attribute("k_quant_type", "NONE"),
                    v_quant = node.string_attribute("v_quant_type", "NONE");
  if (k_quant != "NONE" || v_quant != "NONE") node.unsupported("a quantized cache");
  const bool rotary = node.int_attribute("do_rotary", 0) != 0,
             interleaved = node.int_attribute("rotary_interleaved", 0) != 0;
  const int64_t window = node.int_attribute("local_window_size", -1);
  const bool sink = node.has(11) || node.int_attribute("smooth_softmax", 0) > 0;
  op.softcap = node.float_attribute("softcap", 0);

  ValueId q = node.input(0), k, v;
  const int64_t size = head_size(node, q, packed ? op.heads + 2 * op.kv_heads : op.heads);
  op.scale = scale_of(node, size);
  if (packed) {
    k = part(node, q, 2, op.heads * size, op.kv_heads * size);
    v = part(node, q, 2, (op.heads + op.kv_heads) * size, op.kv_heads * size);
    q = part(node, q, 2, 0, op.heads * size);
  } else {
    k = node.input(1), v = node.input(2);
    for (size_t i : {1, 2}) {
      if (node.type(i).rank() != 3 || node.type(i).shape[2] != Dim(op.kv_heads * size))
        node.bad("q is ", node.type(0), ", keys or values are ", node.type(i));
      if (node.type(i).shape[1] != node.type(0).shape[1]) node.unsupported("keys of other positions than the queries");
    }
  }
  const DType dtype = node.type(0).dtype;
  const Rows rows = rows_of(node, q);
  const Shape per_row{rows.batch, 1, 1, 1};
  if (rotary) {
    const ValueId places =
        node.has(9) ? node.input(9) : node.reshape(positions_of(node, q, rows), {rows.batch, rows.count});
    const auto angles = [&](size_t table) {
      const TensorType type = node.type(table);
      if (type.rank() != 2 || !type.shape[1].is_constant()) node.bad("the angles are ", type);
      return node.reshape(node.add(ops::Gather{}, {node.input(table), places}),
                          {rows.batch, rows.count, 1, type.shape[1]});
    };
    const ValueId cosine = angles(7), sine = angles(8);
    q = rotated(node, q, op.heads, cosine, sine, interleaved);
    k = rotated(node, k, op.kv_heads, cosine, sine, interleaved);
  }
  const ValueId keys = with_rows(node, 3, k, op.kv_heads, rows), values = with_rows(node, 4, v, op.kv_heads, rows);
  if (node.wants_output(1)) node.set_output(1, keys);
  if (node.wants_output(2)) node.set_output(2, values);
  std::vector<ValueId> inputs{q, node.has(3) ? merge_heads(node, keys) : k,
                              node.has(3) ? merge_heads(node, values) : v};

  ValueId mask;
  if (sink) {
    // A key of zeros in front of all, whose value is zeros, has the score of the sink and takes part in every query.
    // The others have places that the op cannot say beside it, so that the mask says which a query sees.
    const ValueId zeros = node.add(ops::Broadcast{{rows.batch, 1, op.kv_heads * size}}, {node.scalar(dtype, 0)});
    for (size_t i : {1, 2}) inputs[i] = node.add(ops::Concat{1}, {zeros, inputs[i]});
    ValueId scores = node.scalar(dtype, 0);
    if (node.has(11)) scores = node.reshape(node.input(11), {1, op.heads, 1, 1});
    ProgramBuilder b({DType::i64, DType::i64, DType::i64, dtype});
    const int key = b.op(Scalar::sub, 0, b.constant(DType::i64, 1));
    int seen = b.op(Scalar::logical_and, b.op(Scalar::less_equal, key, 1), b.op(Scalar::less, key, 2));
    if (window > 0) {
      const int first = b.op(Scalar::sub, 1, b.constant(DType::i64, double(window)));
      seen = b.op(Scalar::logical_and, seen, b.op(Scalar::less, first, key));
    }
    const int others =
        b.op(Scalar::where, seen, b.constant(dtype, 0), b.constant(dtype, -std::numeric_limits<double>::infinity()));
    const int is_sink = b.op(Scalar::less, key, b.constant(DType::i64, 0));
    mask = node.program(
        b.result(b.op(Scalar::where, is_sink, 3, others)),
        {counted(node, inputs[1], 1, 3), positions_of(node, q, rows), node.reshape(rows.lengths, per_row), scores});
    if (node.has(10)) mask = node.pointwise(Scalar::add, {mask, bias_of(node, inputs[1], 1)});
    inputs.push_back(mask);
  } else {
    op.right = 0;
    if (window > 0) op.left = window - 1, op.zero_nan = true;  // what stands behind a row's length may see no key
    if (node.has(10)) mask = bias_of(node, inputs[1], 0);
    ValueId end = rows.lengths;
    if (!rows.prompt) {
      op.from_end = true;
      end = node.pointwise(Scalar::add, {rows.past, rows.added});
      // Rows of a prompt that are shorter than others see no keys behind their length.
      if (rows.batch != Dim(1) && rows.count != Dim(1)) {
        ProgramBuilder b({DType::i64, DType::i64});
        const int other = b.constant(dtype, -std::numeric_limits<double>::infinity());
        const ValueId there =
            node.program(b.result(b.op(Scalar::where, b.op(Scalar::less, 0, 1), b.constant(dtype, 0), other)),
                         {counted(node, inputs[1], 1, 3), node.reshape(rows.lengths, per_row)});
        mask = mask.valid() ? node.pointwise(Scalar::add, {mask, there}) : there;
      }
    }
    inputs.push_back(mask);
    inputs.push_back(end);
  }
  node.set_output(0, node.add(op, inputs));
}

}  // namespace temper::microsoft
