// SPDX-License-Identifier: Apache-2.0
// Imports Softmax and LogSoftmax.
#include "graph/ops/softmax.h"

#include "onnx/node.h"

namespace temper {

void import_Softmax(OnnxNode& node) {
  const Shape shape = node.type(0).shape;
  int64_t axis = normalize_axis(node.int_attribute("axis", node.opset() < 13 ? 1 : -1), int64_t(shape.size()));
  ops::Softmax op;
  op.log = node.op_type() == "LogSoftmax";
  if (node.opset() >= 13 || axis + 1 == int64_t(shape.size())) {
    op.axis = axis;
    node.set_output(0, node.add(op, {node.input(0)}));
    return;
  }
  // Before opset 13 all axes from `axis` on are one.
  Dim rows = 1, columns = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    (int64_t(i) < axis ? rows : columns) = (int64_t(i) < axis ? rows : columns) * shape[i];
  op.axis = 1;
  node.set_output(0, node.reshape(node.add(op, {node.reshape(node.input(0), {rows, columns})}), shape));
}

void import_LogSoftmax(OnnxNode& node) { import_Softmax(node); }

}  // namespace temper
