// SPDX-License-Identifier: Apache-2.0
// Imports TopK.
#include "graph/ops/topk.h"

#include "onnx/node.h"

namespace temper {

void import_TopK(OnnxNode& node) {
  ops::TopK op;
  op.axis = normalize_axis(node.int_attribute("axis", -1), node.type(0).rank());
  op.largest = node.int_attribute("largest", 1) != 0;
  node.ignore_attribute("sorted");  // always sorted, which "unsorted" allows
  std::vector<ValueId> inputs{node.input(0)};
  if (node.opset() < 10) op.k = node.int_attribute("k");
  else inputs.push_back(node.input(1));
  const auto outputs = node.add_many(op, inputs);
  node.set_output(0, outputs[0]);
  node.set_output(1, outputs[1]);
}

}  // namespace temper
