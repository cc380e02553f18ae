// SPDX-License-Identifier: Apache-2.0
// Imports ArgMax, ArgMin and Hardmax.
#include "graph/ops/arg_reduce.h"

#include <numeric>

#include "onnx/node.h"

namespace temper {

static void arg_reduce(OnnxNode& node, ops::ArgKind kind) {
  ops::ArgReduce op;
  op.kind = kind;
  op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  op.keepdims = node.int_attribute("keepdims", 1) != 0;
  op.last = node.int_attribute("select_last_index", 0) != 0;
  node.set_output(0, node.add(op, {node.input(0)}));
}

void import_ArgMax(OnnxNode& node) { arg_reduce(node, ops::ArgKind::max); }
void import_ArgMin(OnnxNode& node) { arg_reduce(node, ops::ArgKind::min); }

// One at the first maximum, zero elsewhere: the positions along the axis compared with that of the maximum.
void import_Hardmax(OnnxNode& node) {
  const TensorType type = node.type(0);
  ValueId x = node.input(0);
  ops::ArgReduce op;
  op.axis = normalize_axis(node.int_attribute("axis", node.opset() < 13 ? 1 : -1), type.rank());
  Shape shape = type.shape;
  if (node.opset() < 13) {  // all axes from `axis` on are one
    Dim rows = 1, columns = 1;
    for (int64_t i = 0; i < type.rank(); ++i)
      (i < op.axis ? rows : columns) = (i < op.axis ? rows : columns) * type.shape[size_t(i)];
    shape = {rows, columns};
    x = node.reshape(x, shape);
    op.axis = 1;
  }
  const Dim& size = shape[size_t(op.axis)];
  if (!size.is_constant())
    node.refuse("Hardmax along an axis of the unknown size '", size, "'; give a fixed shape with --shapes");
  if (size.value() > int64_t(1) << 24) node.refuse("Hardmax along an axis of ", size, " elements; the limit is 2^24");
  // As 32 bits: their comparison is most of the time, and the limit lets them fit.
  std::vector<int32_t> positions(size_t(size.value()));
  std::iota(positions.begin(), positions.end(), 0);
  Dims dims(shape.size(), 1);
  dims[size_t(op.axis)] = size.value();
  const ValueId range = node.constant(Tensor::of<int32_t>(dims, positions));
  ProgramBuilder b({DType::i32, DType::i32});
  const Program program = b.result(b.cast(b.op(Scalar::equal, 0, 1), type.dtype));
  const ValueId largest = node.cast(node.add(op, {x}), DType::i32);
  node.set_output(0, node.reshape(node.program(program, {largest, range}), type.shape));
}

}  // namespace temper
