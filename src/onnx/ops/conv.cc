// SPDX-License-Identifier: Apache-2.0
// Imports Conv.
#include "graph/ops/conv.h"

#include "graph/ops/window.h"
#include "onnx/broadcast.h"
#include "onnx/products.h"
#include "onnx/window.h"

namespace temper {

ops::Conv import_conv(OnnxNode& node, size_t weights) {
  const int64_t spatial = node.type(0).rank() - 2;
  const TensorType& w = node.type(weights);
  if (spatial < 1 || w.rank() != spatial + 2) node.bad("an input ", node.type(0), " with weights ", w);
  const Dims dims = w.dims();
  const ops::Window window = import_window(node, Dims(dims.begin() + 2, dims.end()));
  ops::Conv op;
  op.strides = window.strides;
  op.dilations = window.dilations;
  op.pads = window.pads;
  op.pad_mode = window.pad_mode;
  op.group = node.int_attribute("group", 1);
  return op;
}

ValueId conv(OnnxNode& node) {
  const ValueId y = node.product(import_conv(node, 1), {node.input(0), node.input(1)});
  if (!node.has(2)) return y;
  return node.pointwise(Scalar::add, {y, along_axis(node, node.input(2), 1, node.type(0).rank())});
}

void import_Conv(OnnxNode& node) { node.set_output(0, conv(node)); }

}  // namespace temper
