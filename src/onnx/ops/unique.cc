// SPDX-License-Identifier: Apache-2.0
// Imports Unique.
#include "graph/ops/unique.h"

#include "onnx/small_types.h"

namespace temper {

void import_Unique(OnnxNode& node) {
  ops::Unique op;
  if (node.has_attribute("axis")) op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  op.sorted = node.int_attribute("sorted", 1) != 0;
  const DType dtype = node.type(0).dtype;
  if (dtype == DType::string && op.sorted) node.unsupported("a sorted Unique of strings");
  auto outputs = node.add_many(op, {movable(node, node.input(0))});
  outputs[0] = moved(node, outputs[0], dtype);
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
