// SPDX-License-Identifier: Apache-2.0
// Imports ConvTranspose.
#include "graph/ops/conv_transpose.h"

#include "onnx/broadcast.h"

namespace temper {

void import_ConvTranspose(OnnxNode& node) {
  const int64_t spatial = node.type(0).rank() - 2;
  const Dims wd = node.type(1).dims();
  if (spatial < 1 || int64_t(wd.size()) != spatial + 2)
    node.bad("an input ", node.type(0), " with weights ", node.type(1));
  const size_t n = size_t(spatial);
  const Dims kernel = node.ints_attribute("kernel_shape", Dims(wd.begin() + 2, wd.end()));
  if (kernel != Dims(wd.begin() + 2, wd.end()))
    node.bad("kernel_shape ", kernel, " does not agree with weights ", node.type(1));
  ops::ConvTranspose op;
  op.strides = node.ints_attribute("strides", Dims(n, 1));
  op.dilations = node.ints_attribute("dilations", Dims(n, 1));
  op.pads = node.ints_attribute("pads", Dims(2 * n, 0));
  op.output_padding = node.ints_attribute("output_padding", Dims(n, 0));
  op.group = node.int_attribute("group", 1);
  const Dims output_shape = node.ints_attribute("output_shape", {});
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID") node.bad("auto_pad is '", auto_pad, "'");
  if (op.strides.size() != n || op.dilations.size() != n || op.pads.size() != 2 * n || op.output_padding.size() != n)
    node.bad("strides ", op.strides, ", dilations ", op.dilations, ", pads ", op.pads, ", output_padding ",
             op.output_padding, " for ", n, " spatial axes");
  if (auto_pad == "VALID") op.pads.assign(2 * n, 0);
  if (!output_shape.empty() || same) {
    // The padding follows from the wanted size; what is missing to it is added at the end.
    const size_t skip = output_shape.size() == n + 2 ? 2 : 0;
    if (!output_shape.empty() && output_shape.size() != n + skip)
      node.bad("output_shape ", output_shape, " for ", n, " spatial axes");
    for (size_t i = 0; i < n; ++i) {
      const Dim& in = node.type(0).shape[i + 2];
      const Dim wanted = output_shape.empty() ? in * Dim(op.strides[i]) : Dim(output_shape[i + skip]);
      const Dim full = (in - Dim(1)) * Dim(op.strides[i]) + Dim(op.output_padding[i]) +
                       Dim(op.dilations[i]) * Dim(kernel[i] - 1) + Dim(1);
      const Dim excess = full - wanted;
      if (!excess.is_constant())
        node.refuse("output_shape with an input ", node.type(0), "; give a fixed shape with --shapes");
      const int64_t total = excess.value();
      if (total < 0) op.output_padding[i] -= total;
      const int64_t cut = std::max<int64_t>(total, 0), small = cut / 2;
      op.pads[i] = auto_pad == "SAME_UPPER" ? small : cut - small;
      op.pads[i + n] = cut - op.pads[i];
    }
  }
  ValueId y = node.add(op, {node.input(0), node.input(1)});
  if (node.has(2)) y = node.pointwise(Scalar::add, {y, along_axis(node, node.input(2), 1, spatial + 2)});
  node.set_output(0, y);
}

}  // namespace temper
