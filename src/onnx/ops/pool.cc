// SPDX-License-Identifier: Apache-2.0
// AveragePool, MaxPool, GlobalAveragePool
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

void import_AveragePool(OnnxNode& node) {
  ops::Pool op = pool_of(node, ops::PoolKind::average);
  op.count_include_pad = node.int_attribute("count_include_pad", 0) != 0;
  node.set_output(0, node.add(op, {node.input(0)}));
}

void import_MaxPool(OnnxNode& node) {
  ops::Pool op = pool_of(node, ops::PoolKind::max);
  op.with_indices = node.wants_output(1);
  op.column_major = node.int_attribute("storage_order", 0) != 0;
  const auto outputs = node.add_many(op, {node.input(0)});
  node.set_output(0, outputs[0]);
  if (op.with_indices) node.set_output(1, outputs[1]);
}

void import_GlobalAveragePool(OnnxNode& node) {
  ops::Reduce op;
  op.kind = ops::ReduceKind::mean;
  for (int64_t axis = 2; axis < node.type(0).rank(); ++axis) op.axes.push_back(axis);
  node.set_output(0, node.add(op, {node.input(0)}));
}

}  // namespace temper
