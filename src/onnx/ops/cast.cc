// SPDX-License-Identifier: Apache-2.0
// Imports Cast, CastLike and BitCast. `saturate` and `round_mode` speak of 8-bit floats only, which are refused as
// dtypes.
#include "graph/ops/bit_cast.h"
#include "onnx/node.h"
#include "onnx/tensor_proto.h"

namespace temper {

// The target dtype was a string in opset 1.
void import_Cast(OnnxNode& node) {
  if (node.opset() < 6) node.refuse("Cast of opset ", node.opset(), "; the oldest supported opset is 6");
  node.ignore_attribute("saturate");
  node.ignore_attribute("round_mode");
  node.set_output(0, node.cast(node.input(0), dtype_from_onnx(int32_t(node.int_attribute("to")), "Cast")));
}

void import_CastLike(OnnxNode& node) {
  node.ignore_attribute("saturate");
  node.ignore_attribute("round_mode");
  node.set_output(0, node.cast(node.input(0), node.type(1).dtype));
}

void import_BitCast(OnnxNode& node) {
  ops::BitCast op;
  op.dtype = dtype_from_onnx(int32_t(node.int_attribute("to")), "BitCast");
  node.set_output(0, node.add(op, {node.input(0)}));
}

}  // namespace temper
