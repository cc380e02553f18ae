// SPDX-License-Identifier: Apache-2.0
#include "onnx/broadcast.h"

namespace temper {

std::pair<ValueId, ValueId> binary_inputs(OnnxNode& node) {
  const ValueId a = node.input(0), b = node.input(1);
  if (node.opset() >= 7) return {a, b};
  node.ignore_attribute("consumed_inputs");  // a memory hint of opset 1
  const bool broadcast = node.int_attribute("broadcast", 0) != 0;
  const int64_t rank = node.type(0).rank(), inner = node.type(1).rank();
  if (!node.has_attribute("axis")) return {a, b};  // aligned at the end, as numpy does
  const int64_t axis = normalize_axis(node.int_attribute("axis", 0), rank);
  if (!broadcast) return {a, b};
  if (axis + inner > rank) node.bad("an input ", node.type(1), " at axis ", axis, " of ", node.type(0));
  Shape shape = node.type(1).shape;
  shape.resize(size_t(rank - axis), Dim(1));
  return {a, node.reshape(b, shape)};
}

ValueId along_axis(OnnxNode& node, ValueId vector, int64_t axis, int64_t rank) {
  Shape shape = node.graph().type(vector).shape;
  if (shape.size() != 1) node.bad("a vector is needed where ", node.graph().type(vector), " was given");
  shape.resize(size_t(rank - axis), Dim(1));
  return node.reshape(vector, shape);
}

}  // namespace temper
