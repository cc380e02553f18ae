// SPDX-License-Identifier: Apache-2.0
// Imports NonMaxSuppression.
#include "graph/ops/nms.h"

#include "onnx/node.h"

namespace temper {

void import_NonMaxSuppression(OnnxNode& node) {
  ops::Nms op;
  op.center = node.int_attribute("center_point_box", 0) != 0;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 5; ++i) inputs.push_back(i < 2 ? node.input(i) : node.optional_input(i));
  node.set_output(0, node.add(op, inputs));
}

}  // namespace temper
