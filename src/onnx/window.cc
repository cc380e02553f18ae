// SPDX-License-Identifier: Apache-2.0
#include "onnx/window.h"

#include "graph/ops/transpose.h"
#include "graph/ops/window.h"

namespace temper {

ops::Window import_window(OnnxNode& node, std::optional<Dims> kernel) {
  ops::Window window;
  window.kernel = node.ints_attribute("kernel_shape", kernel.value_or(Dims{}));
  if (kernel && window.kernel != *kernel)
    node.bad("kernel_shape ", window.kernel, " does not agree with the weights' ", *kernel);
  const size_t n = window.kernel.size();
  if (n + 2 != node.type(0).shape.size())
    node.bad("kernel_shape ", window.kernel, " does not fit the input ", node.type(0));
  window.strides = node.ints_attribute("strides", Dims(n, 1));
  window.dilations = node.ints_attribute("dilations", Dims(n, 1));
  window.pads = node.ints_attribute("pads", Dims(2 * n, 0));
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER") window.pad_mode = ops::PadMode::same_upper;
  else if (auto_pad == "SAME_LOWER") window.pad_mode = ops::PadMode::same_lower;
  else if (auto_pad == "VALID") window.pads.assign(2 * n, 0);
  else if (auto_pad != "NOTSET") node.unsupported("auto_pad = ", auto_pad);
  if (window.pad_mode != ops::PadMode::explicit_pads) window.pads.assign(2 * n, 0);
  if (window.pads.size() != 2 * n) node.bad("pads ", window.pads, " of ", n, " axes");
  return window;
}

ValueId channels_to_front(OnnxNode& node, ValueId x) {
  const int64_t rank = node.graph().type(x).rank();
  ops::Transpose op{{0, rank - 1}};
  for (int64_t axis = 1; axis + 1 < rank; ++axis) op.perm.push_back(axis);
  return node.add(op, {x});
}

ValueId channels_to_end(OnnxNode& node, ValueId x) {
  const int64_t rank = node.graph().type(x).rank();
  ops::Transpose op{{0}};
  for (int64_t axis = 2; axis < rank; ++axis) op.perm.push_back(axis);
  op.perm.push_back(1);
  return node.add(op, {x});
}

}  // namespace temper
