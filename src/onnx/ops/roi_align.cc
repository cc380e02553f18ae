// SPDX-License-Identifier: Apache-2.0
// Imports RoiAlign.
#include "graph/ops/roi_align.h"

#include "onnx/node.h"

namespace temper {

void import_RoiAlign(OnnxNode& node) {
  ops::RoiAlign op;
  const std::string mode = node.string_attribute("mode", "avg");
  if (mode != "avg" && mode != "max") node.bad("mode is '", mode, "'");
  op.kind = mode == "avg" ? ops::RoiKind::avg : ops::RoiKind::max;
  op.height = node.int_attribute("output_height", 1);
  op.width = node.int_attribute("output_width", 1);
  op.sampling_ratio = node.int_attribute("sampling_ratio", 0);
  op.spatial_scale = node.float_attribute("spatial_scale", 1);
  const std::string coordinates =
      node.opset() < 16 ? "output_half_pixel" : node.string_attribute("coordinate_transformation_mode", "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    node.bad("coordinate_transformation_mode is '", coordinates, "'");
  op.half_pixel = coordinates == "half_pixel";
  node.set_output(0, node.add(op, {node.input(0), node.input(1), node.input(2)}));
}

}  // namespace temper
