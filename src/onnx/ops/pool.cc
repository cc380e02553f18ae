// SPDX-License-Identifier: Apache-2.0
// Imports AveragePool, MaxPool, LpPool, the global pools and MaxUnpool.
#include "graph/ops/pool.h"

#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/pad.h"
#include "graph/ops/reduce.h"
#include "graph/ops/scatter.h"
#include "graph/ops/shape.h"
#include "graph/ops/window.h"
#include "onnx/window.h"

namespace temper {

namespace {
ops::Pool pool_of(OnnxNode& node, ops::PoolKind kind) {
  const ops::Window window = import_window(node);
  ops::Pool op;
  op.kind = kind;
  op.kernel = window.kernel;
  op.strides = window.strides;
  op.dilations = window.dilations;
  op.pads = window.pads;
  op.pad_mode = window.pad_mode;
  op.ceil_mode = node.int_attribute("ceil_mode", 0) != 0;
  return op;
}
}  // namespace

ops::Pool import_average_pool(OnnxNode& node) {
  ops::Pool op = pool_of(node, ops::PoolKind::average);
  op.count_include_pad = node.int_attribute("count_include_pad", 0) != 0;
  return op;
}

void import_AveragePool(OnnxNode& node) { node.set_output(0, node.add(import_average_pool(node), {node.input(0)})); }

void import_MaxPool(OnnxNode& node) {
  ops::Pool op = pool_of(node, ops::PoolKind::max);
  op.with_indices = node.wants_output(1);
  op.column_major = node.int_attribute("storage_order", 0) != 0;
  const auto outputs = node.add_many(op, {node.input(0)});
  node.set_output(0, outputs[0]);
  if (op.with_indices) node.set_output(1, outputs[1]);
}

// A max pool of com.microsoft, whose channels are the last axis.
namespace microsoft {
void import_NhwcMaxPool(OnnxNode& node) {
  if (node.type(0).rank() < 3) node.bad("the input ", node.type(0), " has no spatial axes");
  const ops::Pool op = pool_of(node, ops::PoolKind::max);
  node.set_output(0, channels_to_end(node, node.add(op, {channels_to_front(node, node.input(0))})));
}
}  // namespace microsoft

void import_LpPool(OnnxNode& node) {
  ops::Pool op = pool_of(node, ops::PoolKind::lp);
  op.p = node.opset() < 2 ? int64_t(node.float_attribute("p", 2)) : node.int_attribute("p", 2);
  node.set_output(0, node.add(op, {node.input(0)}));
}

namespace {
ValueId global_reduce(OnnxNode& node, ops::ReduceKind kind, ValueId x) {
  if (node.type(0).rank() < 3) node.bad("the input ", node.type(0), " has no spatial axes");
  ops::Reduce op;
  op.kind = kind;
  for (int64_t axis = 2; axis < node.type(0).rank(); ++axis) op.axes.push_back(axis);
  return node.add(op, {x});
}
}  // namespace

void import_GlobalAveragePool(OnnxNode& node) {
  node.set_output(0, global_reduce(node, ops::ReduceKind::mean, node.input(0)));
}
void import_GlobalMaxPool(OnnxNode& node) {
  node.set_output(0, global_reduce(node, ops::ReduceKind::max, node.input(0)));
}

void import_GlobalLpPool(OnnxNode& node) {
  const double p = node.opset() < 2 ? node.float_attribute("p", 2) : double(node.int_attribute("p", 2));
  if (p == 1) return node.set_output(0, global_reduce(node, ops::ReduceKind::l1, node.input(0)));
  if (p == 2) return node.set_output(0, global_reduce(node, ops::ReduceKind::l2, node.input(0)));
  if (!(p > 0)) node.bad("p is ", p);
  const DType dtype = node.type(0).dtype;
  ProgramBuilder b({dtype});
  const ValueId powers =
      node.program(b.result(b.op(Scalar::pow, b.op(Scalar::abs, 0), b.constant(dtype, p))), {node.input(0)});
  node.set_output(
      0, node.pointwise(Scalar::pow, {global_reduce(node, ops::ReduceKind::sum, powers), node.scalar(dtype, 1 / p)}));
}

// The indices count in the flattened result. A larger output_shape leaves that result in its corner.
void import_MaxUnpool(OnnxNode& node) {
  const TensorType x = node.type(0);
  const ops::Window window = import_window(node);
  Dim count = 1, all = 1;
  Shape shape{x.shape[0], x.shape[1]};
  const size_t n = window.kernel.size();
  for (size_t i = 0; i < n; ++i)
    shape.push_back((x.shape[i + 2] - Dim(1)) * Dim(window.strides[i]) +
                    Dim(window.kernel[i] - window.pads[i] - window.pads[i + n]));
  for (const Dim& dim : x.shape) count = count * dim;
  for (const Dim& dim : shape) all = all * dim;
  const ValueId zeros = node.add(ops::Broadcast{{all}}, {node.scalar(x.dtype, 0)});
  const ValueId flat =
      node.add(ops::Scatter{}, {zeros, node.reshape(node.input(1), {count}), node.reshape(node.input(0), {count})});
  const ValueId y = node.reshape(flat, shape);
  if (!node.has(2)) return node.set_output(0, y);
  ops::ShapeOf size;
  size.end = int64_t(shape.size());
  const ValueId missing = node.pointwise(Scalar::sub, {node.input(2), node.add(size, {y})});
  const ValueId pads = node.add(ops::Concat{}, {node.ints(Dims(shape.size(), 0)), missing});
  node.set_output(0, node.add(ops::Pad{}, {y, {}, pads, {}}));
}

}  // namespace temper
