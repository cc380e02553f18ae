// SPDX-License-Identifier: Apache-2.0
// Imports Pad.
#include "graph/ops/pad.h"

#include "onnx/small_types.h"

namespace temper {

void import_Pad(OnnxNode& node) {
  ops::Pad op;
  const std::string mode = node.string_attribute("mode", "constant");
  const auto names = enum_names(ops::PadKind{});
  size_t kind = 0;
  while (kind < names.size() && names[kind] != mode) ++kind;
  if (kind == names.size()) node.bad("mode is '", mode, "'");
  op.kind = ops::PadKind(kind);
  ValueId value, pads, axes;
  if (node.opset() < 11) {
    pads = node.ints(node.ints_attribute(node.opset() < 2 ? "paddings" : "pads", {}));
    const double number = node.float_attribute("value", 0);
    if (number != 0) value = node.scalar(node.type(0).dtype, number);
  } else {
    pads = node.input(1);
    value = node.optional_input(2);
    axes = node.optional_input(3);
  }
  if (op.kind != ops::PadKind::constant) value = {};
  const ValueId y = node.add(op, {movable(node, node.input(0)), movable(node, value), pads, axes});
  node.set_output(0, moved(node, y, node.type(0).dtype));
}

}  // namespace temper
