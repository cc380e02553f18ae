// SPDX-License-Identifier: Apache-2.0
// Imports ImageDecoder.
#include "graph/ops/image_decode.h"
#include "onnx/node.h"

namespace temper {

void import_ImageDecoder(OnnxNode& node) {
  ops::ImageDecode op;
  const std::string format = node.string_attribute("pixel_format", "RGB");
  if (format == "BGR") op.format = ops::PixelFormat::bgr;
  else if (format == "Grayscale") op.format = ops::PixelFormat::grey;
  else if (format != "RGB") node.bad("pixel_format is '", format, "'; it is RGB, BGR or Grayscale");
  node.set_output(0, node.add(op, {node.input(0)}));
}

}  // namespace temper
