// SPDX-License-Identifier: Apache-2.0
// Scatter, ScatterElements, ScatterND
#include "onnx/node.h"

namespace temper {

namespace {
ops::ScatterReduction reduction_of(OnnxNode& node) {
  const std::string word = node.string_attribute("reduction", "none");
  const auto names = enum_names(ops::ScatterReduction{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == word) return ops::ScatterReduction(i);
  node.bad("reduction is '", word, "'");
}
}  // namespace

void import_ScatterElements(OnnxNode& node) {
  ops::Scatter op;
  op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  op.reduction = reduction_of(node);
  node.set_output(0, node.add(op, {node.input(0), node.input(1), node.input(2)}));
}

void import_Scatter(OnnxNode& node) { import_ScatterElements(node); }

void import_ScatterND(OnnxNode& node) {
  ops::Scatter op;
  op.kind = ops::ScatterKind::nd;
  op.reduction = reduction_of(node);
  node.set_output(0, node.add(op, {node.input(0), node.input(1), node.input(2)}));
}

}  // namespace temper
