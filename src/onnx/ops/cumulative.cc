// SPDX-License-Identifier: Apache-2.0
// Imports CumSum and CumProd.
#include "graph/ops/cumulative.h"

#include "onnx/node.h"

namespace temper {

static void cumulative(OnnxNode& node, ops::CumulativeKind kind) {
  ops::Cumulative op;
  op.kind = kind;
  op.exclusive = node.int_attribute("exclusive", 0) != 0;
  op.reverse = node.int_attribute("reverse", 0) != 0;
  std::vector<ValueId> inputs{node.input(0)};
  if (node.contents(1)) {
    const auto axis = node.constant_ints(1, "axis");
    if (axis.size() != 1) node.bad("axis is ", axis);
    op.axis = normalize_axis(axis[0], node.type(0).rank());
  } else {
    inputs.push_back(node.input(1));
  }
  node.set_output(0, node.add(op, inputs));
}

void import_CumProd(OnnxNode& node) { cumulative(node, ops::CumulativeKind::prod); }
void import_CumSum(OnnxNode& node) { cumulative(node, ops::CumulativeKind::sum); }

}  // namespace temper
