// SPDX-License-Identifier: Apache-2.0
// Imports GridSample.
#include "graph/ops/grid_sample.h"

#include "onnx/node.h"

namespace temper {

void import_GridSample(OnnxNode& node) {
  ops::GridSample op;
  const std::string mode = node.string_attribute("mode", node.opset() < 20 ? "bilinear" : "linear");
  if (mode == "nearest") op.kind = ops::SampleKind::nearest;
  else if (mode == "linear" || mode == "bilinear") op.kind = ops::SampleKind::linear;
  else if (mode == "cubic" || mode == "bicubic") op.kind = ops::SampleKind::cubic;
  else node.bad("mode is '", mode, "'");
  const std::string padding = node.string_attribute("padding_mode", "zeros");
  if (padding == "zeros") op.padding = ops::SamplePadding::zeros;
  else if (padding == "border") op.padding = ops::SamplePadding::border;
  else if (padding == "reflection") op.padding = ops::SamplePadding::reflection;
  else node.bad("padding_mode is '", padding, "'");
  op.align_corners = node.int_attribute("align_corners", 0) != 0;
  node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
}

}  // namespace temper
