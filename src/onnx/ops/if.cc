// SPDX-License-Identifier: Apache-2.0
// Imports If: the branch that a condition names, where it is known at import, as it is when it asks about shapes; else
// both, and what chooses of their results (onnx/either.h).
#include <onnx/onnx_pb.h>

#include "onnx/either.h"
#include "onnx/node.h"

namespace temper {

void import_If(OnnxNode& node) {
  const auto* then_branch = node.graph_attribute("then_branch");
  const auto* else_branch = node.graph_attribute("else_branch");
  if (!then_branch || !else_branch) node.bad("a branch is missing");
  for (const auto* branch : {then_branch, else_branch})
    if (size_t(branch->output_size()) != node.output_count())
      node.bad("a branch has ", branch->output_size(), " outputs");
  std::vector<OnnxValue> outputs;
  const Contents* known = node.contents(0);
  if (known && known->size() == 1 && (*known)[0].is_constant()) {
    const bool then = (*known)[0].value() != 0;
    outputs = node.inline_branch(then ? *then_branch : *else_branch, then);
  } else {
    // A side that contradicts the shapes is meant for others.
    outputs = on_both_sides(
                  node.graph(), node.name(), node.input(0),
                  [&](bool then) { return node.inline_branch(then ? *then_branch : *else_branch, then); },
                  [&](const Error& error) { return error.kind() == ErrorKind::bad_file && !node.is_too_deep(); })
                  .results;
  }
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

}  // namespace temper
