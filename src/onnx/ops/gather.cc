// SPDX-License-Identifier: Apache-2.0
// Imports Gather, GatherElements and GatherND.
#include "graph/ops/gather.h"

#include "onnx/node.h"

namespace temper {

void import_Gather(OnnxNode& node) {
  ops::Gather op;
  op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
}

void import_GatherElements(OnnxNode& node) {
  ops::Gather op;
  op.kind = ops::GatherKind::elements;
  op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
}

void import_GatherND(OnnxNode& node) {
  ops::Gather op;
  op.kind = ops::GatherKind::nd;
  op.batch_dims = node.int_attribute("batch_dims", 0);
  node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
}

}  // namespace temper
