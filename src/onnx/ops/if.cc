// SPDX-License-Identifier: Apache-2.0
// Imports If, only where the condition is known at import, as it is when it asks about shapes.
#include "onnx/node.h"

namespace temper {

void import_If(OnnxNode& node) {
  const auto* then_branch = node.graph_attribute("then_branch");
  const auto* else_branch = node.graph_attribute("else_branch");
  if (!then_branch || !else_branch) node.bad("a branch is missing");
  const auto condition = node.constant_ints(0, "the condition of If");
  if (condition.size() != 1) node.bad("the condition has ", condition.size(), " elements");
  const auto outputs = node.inline_graph(*(condition[0] ? then_branch : else_branch), {});
  if (outputs.size() != node.output_count()) node.bad("the branch has ", outputs.size(), " outputs");
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
