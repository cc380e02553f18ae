// SPDX-License-Identifier: Apache-2.0
// Imports Attention. What the op attention does not say is computed as ONNX's function body says: scores that are an
// output, a softmax in f64, masks of integers, a causal attention whose past keys do not end where its queries begin.
#include "graph/ops/attention.h"

#include <cmath>
#include <limits>

#include "graph/ops/concat.h"
#include "graph/ops/pad.h"
#include "graph/ops/transpose.h"
#include "onnx/heads.h"
#include "onnx/tensor_proto.h"

namespace temper {

namespace {

// The mask with its last axis padded to `keys`: by false, or by -inf.
ValueId padded_mask(OnnxNode& node, ValueId mask, const Dim& keys) {
  const TensorType type = node.graph().type(mask);
  if (type.rank() == 0 || type.shape.back() == keys) return mask;
  ops::Pad op;
  op.before.assign(type.shape.size(), 0);
  op.after.assign(type.shape.size(), 0);
  op.after.back() = keys - type.shape.back();
  const double none = type.dtype == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  return node.add(op, {mask, node.scalar(type.dtype, none)});
}

}  // namespace

// Past keys and values stand before the new ones, on the axis of positions of [B,H,S,D].
void import_Attention(OnnxNode& node) {
  const TensorType q = node.type(0), k = node.type(1), v = node.type(2);
  const bool split = q.rank() == 4, causal = node.int_attribute("is_causal", 0) != 0;
  const int64_t q_heads = node.int_attribute("q_num_heads", 0), kv_heads = node.int_attribute("kv_num_heads", 0);
  const double softcap = node.float_attribute("softcap", 0);
  const int64_t precision = node.int_attribute("softmax_precision", onnx_from_dtype(DType::f32));
  node.int_attribute("qk_matmul_output_mode", 0);
  if ((q.rank() != 3 && q.rank() != 4) || k.rank() != q.rank() || v.rank() != q.rank())
    node.bad("q, k and v are ", q, ", ", k, " and ", v);
  ops::Attention op;
  const auto known = [](const Dim& dim) { return dim.is_constant() ? dim.value() : 0; };
  op.heads = split ? known(q.shape[1]) : q_heads;
  op.kv_heads = split ? known(k.shape[1]) : kv_heads;
  op.softcap = softcap;
  if (op.heads < 1 || op.kv_heads < 1) return node.use_function_body();
  const int64_t size = split ? known(q.shape[3]) : known(q.shape[2]) / op.heads;
  if (size < 1 || node.wants_output(3) || (precision == onnx_from_dtype(DType::f64) && q.dtype != DType::f64))
    return node.use_function_body();
  op.scale = node.float_attribute("scale", 1 / std::sqrt(double(size)));
  if (!(softcap >= 0)) node.bad("softcap is ", softcap);
  const bool past = node.has(4) || node.has(5), bounded = node.has(6);
  if (past && !(node.has(4) && node.has(5))) node.bad("there are past keys or past values, but not both");
  if (past && bounded) node.bad("nonpad_kv_seqlen stands beside past keys");
  const size_t positions = split ? 2 : 1;
  if (causal) {
    op.right = 0;
    op.from_end = past;
    if (past && q.shape[positions] != k.shape[positions]) return node.use_function_body();
  }
  if (node.has(3) && !is_float(node.type(3).dtype) && node.type(3).dtype != DType::boolean)
    return node.use_function_body();

  std::vector<ValueId> inputs{split ? merge_heads(node, node.input(0)) : node.input(0)};
  for (size_t i = 1; i < 3; ++i) {
    if (!past && !node.wants_output(i)) {
      inputs.push_back(split ? merge_heads(node, node.input(i)) : node.input(i));
      continue;
    }
    ValueId present = split ? node.input(i) : split_heads(node, node.input(i), op.kv_heads);
    if (past) present = node.add(ops::Concat{2}, {node.input(i + 3), present});
    if (node.wants_output(i)) node.set_output(i, present);
    inputs.push_back(past || split ? merge_heads(node, present) : node.input(i));
  }
  ValueId mask = node.optional_input(3);
  if (mask.valid() && node.opset() >= 24) mask = padded_mask(node, mask, node.graph().type(inputs[1]).shape[1]);
  if (mask.valid() || bounded) inputs.push_back(mask);
  if (bounded) inputs.push_back(node.input(6));
  if (v.dtype != q.dtype) inputs[2] = node.cast(inputs[2], q.dtype);
  const ValueId y = node.add(op, inputs);
  node.set_output(0, split ? split_heads(node, y, op.heads) : y);
}

}  // namespace temper
