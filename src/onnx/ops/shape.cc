// SPDX-License-Identifier: Apache-2.0
// Imports Shape and Size.
#include "graph/ops/shape.h"

#include <algorithm>

#include "graph/ops/reduce.h"
#include "onnx/node.h"

namespace temper {

void import_Shape(OnnxNode& node) {
  const int64_t rank = node.type(0).rank();
  auto bound = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
  ops::ShapeOf op;
  op.start = bound(node.int_attribute("start", 0));
  op.end = std::max(op.start, bound(node.int_attribute("end", rank)));
  node.set_output(0, node.add(op, {node.input(0)}));
}

void import_Size(OnnxNode& node) {
  ops::ShapeOf shape;
  shape.end = node.type(0).rank();
  ops::Reduce product;
  product.kind = ops::ReduceKind::prod;
  product.axes = {0};
  product.keepdims = false;
  node.set_output(0, node.add(product, {node.add(shape, {node.input(0)})}));
}

}  // namespace temper
