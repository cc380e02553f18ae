// SPDX-License-Identifier: Apache-2.0
// Reshape, Flatten
#include "onnx/node.h"

namespace temper {

void import_Reshape(OnnxNode& node) {
  const bool allow_zero = node.int_attribute("allowzero", 0) != 0;
  if (node.opset() < 5) {
    const auto target = node.ints_attribute("shape", {});
    node.set_output(0, node.reshape(node.input(0), ops::resolve_reshape(node.type(0).shape, Contents(target.begin(), target.end()), false)));
    return;
  }
  if (const Contents* target = node.contents(1)) {
    node.set_output(0, node.reshape(node.input(0), ops::resolve_reshape(node.type(0).shape, *target, allow_zero)));
    return;
  }
  ops::Reshape op;  // the target is data
  op.allow_zero = allow_zero;
  node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
}

void import_Flatten(OnnxNode& node) {
  const Shape& shape = node.type(0).shape;
  int64_t axis = node.int_attribute("axis", 1);
  if (axis != int64_t(shape.size())) axis = normalize_axis(axis, int64_t(shape.size()));
  Dim rows = 1, columns = 1;
  for (size_t i = 0; i < shape.size(); ++i) (int64_t(i) < axis ? rows : columns) = (int64_t(i) < axis ? rows : columns) * shape[i];
  node.set_output(0, node.reshape(node.input(0), {rows, columns}));
}

}  // namespace temper
