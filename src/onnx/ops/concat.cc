// SPDX-License-Identifier: Apache-2.0
// Imports Concat.
#include "graph/ops/concat.h"

#include "onnx/node.h"

namespace temper {

void import_Concat(OnnxNode& node) {
  ops::Concat op;
  const int64_t axis = node.opset() < 4 ? node.int_attribute("axis", 1) : node.int_attribute("axis");
  op.axis = normalize_axis(axis, node.type(0).rank());
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  node.set_output(0, inputs.size() == 1 ? inputs[0] : node.add(op, inputs));
}

}  // namespace temper
