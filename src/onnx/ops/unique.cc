// SPDX-License-Identifier: Apache-2.0
// Imports Unique.
#include "graph/ops/unique.h"

#include "onnx/node.h"

namespace temper {

void import_Unique(OnnxNode& node) {
  ops::Unique op;
  if (node.has_attribute("axis")) op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  op.sorted = node.int_attribute("sorted", 1) != 0;
  const auto outputs = node.add_many(op, {node.input(0)});
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
