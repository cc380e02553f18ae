// SPDX-License-Identifier: Apache-2.0
// Conv
#include "onnx/node.h"
#include "onnx/window.h"

namespace temper {

// A bias of [M] as [M,1,...,1], so that it broadcasts over [N,M,spatial...].
ValueId channel_vector(OnnxNode& node, ValueId bias, int64_t spatial_rank) {
  Shape shape = node.graph().type(bias).shape;
  if (shape.size() != 1) node.bad("the bias has type ", node.graph().type(bias));
  shape.resize(size_t(spatial_rank) + 1, Dim(1));
  return node.reshape(bias, shape);
}

void import_Conv(OnnxNode& node) {
  const int64_t spatial = node.type(0).rank() - 2;
  const Tensor* w = node.constant(1);
  const Dims wd = w ? w->dims() : node.type(1).dims();
  if (spatial < 1 || int64_t(wd.size()) != spatial + 2) node.bad("an input ", node.type(0), " with weights ", node.type(1));
  const ops::Window window = import_window(node, Dims(wd.begin() + 2, wd.end()));
  ops::Conv op;
  op.strides = window.strides;
  op.dilations = window.dilations;
  op.pads = window.pads;
  op.pad_mode = window.pad_mode;
  op.group = node.int_attribute("group", 1);
  ValueId y = node.add(op, {node.input(0), node.input(1)});
  if (node.has(2)) y = node.pointwise(Scalar::add, {y, channel_vector(node, node.input(2), spatial)});
  node.set_output(0, y);
}

}  // namespace temper
