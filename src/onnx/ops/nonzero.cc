// SPDX-License-Identifier: Apache-2.0
// Imports NonZero and Compress.
#include "graph/ops/nonzero.h"

#include "graph/ops/gather.h"
#include "onnx/node.h"

namespace temper {

void import_NonZero(OnnxNode& node) { node.set_output(0, node.add(ops::NonZero{}, {node.input(0)})); }

void import_Compress(OnnxNode& node) {
  ValueId x = node.input(0);
  ops::Gather op;
  if (node.has_attribute("axis")) {
    op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  } else {
    Dim count = 1;
    for (const Dim& dim : node.type(0).shape) count = count * dim;
    x = node.reshape(x, {count});
  }
  if (node.type(1).rank() != 1) node.bad("the condition is ", node.type(1), ", not a vector");
  const ValueId found = node.add(ops::NonZero{}, {node.input(1)});
  node.set_output(0, node.add(op, {x, node.reshape(found, {node.graph().type(found).shape[1]})}));
}

}  // namespace temper
