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
  // Only their order asks for what stands in strings.
  const bool by_text = dtype == DType::string && op.sorted;
  auto outputs = node.add_many(op, {by_text ? node.input(0) : movable(node, node.input(0))});
  if (!by_text) outputs[0] = moved(node, outputs[0], dtype);
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
