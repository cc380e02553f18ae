// SPDX-License-Identifier: Apache-2.0
// Imports Cast, CastLike and BitCast.
#include "base/small_types.h"
#include "graph/ops/bit_cast.h"
#include "onnx/node.h"
#include "onnx/small_types.h"
#include "onnx/tensor_proto.h"

namespace temper {

// The target dtype was a string in opset 1.
void import_Cast(OnnxNode& node) {
  if (node.opset() < 6) node.refuse("Cast of opset ", node.opset(), "; the oldest supported opset is 6");
  const DType to = dtype_from_onnx(int32_t(node.int_attribute("to")), "Cast");
  node.set_output(0, converted(node, node.input(0), to, cast_options(node)));
}

void import_CastLike(OnnxNode& node) {
  node.set_output(0, converted(node, node.input(0), node.type(1).dtype, cast_options(node)));
}

void import_BitCast(OnnxNode& node) {
  ops::BitCast op;
  const DType from = node.type(0).dtype;
  op.dtype = dtype_from_onnx(int32_t(node.int_attribute("to")), "BitCast");
  if (bits_of_code(from) != bits_of_code(op.dtype))
    node.bad("the bits of ", from, " as ", op.dtype, ", which has another number of them");
  if (from != op.dtype && bits_of_code(from) < 8) node.unsupported("the bits of ", from, " as ", op.dtype);
  node.set_output(0, node.add(op, {node.input(0)}));
}

}  // namespace temper
