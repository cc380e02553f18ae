// SPDX-License-Identifier: Apache-2.0
// Imports Range, and what is made of positions: OneHot, EyeLike, Trilu and ReverseSequence.
#include "graph/ops/range.h"

#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/gather.h"
#include "graph/ops/shape.h"
#include "onnx/small_types.h"
#include "onnx/tensor_proto.h"

namespace temper {

void import_Range(OnnxNode& node) {
  std::vector<ValueId> numbers;
  // One whose sizes are open must have one element in a run.
  for (size_t i = 0; i < 3; ++i)
    numbers.push_back(node.type(i).is_concrete() ? node.input(i) : node.reshape(node.input(i), {}));
  node.set_output(0, node.add(ops::Range{}, numbers));
}

namespace {

// 0, 1, ... of axis `axis` of x, shaped so that it broadcasts along that axis of a tensor of rank `rank`.
ValueId positions(OnnxNode& node, ValueId x, int64_t axis, int64_t rank, int64_t along) {
  ops::ShapeOf size;
  size.start = axis;
  size.end = axis + 1;
  const ValueId count = node.reshape(node.add(size, {x}), {});
  const ValueId range = node.add(ops::Range{}, {node.number(0), count, node.number(1)});
  Shape shape(size_t(rank), Dim(1));
  shape[size_t(along)] = node.graph().type(range).shape[0];
  return node.reshape(range, shape);
}

}  // namespace

void import_OneHot(OnnxNode& node) {
  const Shape shape = node.type(0).shape;
  const int64_t rank = int64_t(shape.size()), axis = normalize_axis(node.int_attribute("axis", -1), rank + 1);
  if (node.type(2).shape != Shape{Dim(2)}) node.bad("values are ", node.type(2), ", not [off, on]");
  const ValueId depth = node.cast(node.reshape(node.input(1), {}), DType::i64);
  const ValueId range = node.add(ops::Range{}, {node.number(0), depth, node.number(1)});
  Shape classes(size_t(rank + 1), Dim(1)), wide = shape;
  classes[size_t(axis)] = node.graph().type(range).shape[0];
  wide.insert(wide.begin() + axis, Dim(1));
  const ValueId index = node.reshape(node.cast(node.input(0), DType::i64), wide);
  // index + (index < 0 ? depth : 0), once for each index and not for each class
  ProgramBuilder b({DType::i64, DType::i64});
  const int zero = b.constant(DType::i64, 0);
  const Program from_front = b.result(b.op(Scalar::where, b.op(Scalar::less, 0, zero), b.op(Scalar::add, 0, 1), 0));
  const ValueId hot =
      node.pointwise(Scalar::equal, {node.program(from_front, {index, depth}), node.reshape(range, classes)});
  const ValueId values = movable(node, node.input(2));
  const ValueId off = node.add(ops::Gather{}, {values, node.number(0)}),
                on = node.add(ops::Gather{}, {values, node.number(1)});
  node.set_output(0, moved(node, node.pointwise(Scalar::where, {hot, on, off}), node.type(2).dtype));
}

void import_EyeLike(OnnxNode& node) {
  if (node.type(0).rank() != 2) node.bad("the input ", node.type(0), " does not have rank 2");
  DType dtype = node.type(0).dtype;
  if (node.has_attribute("dtype"))
    dtype = dtype_from_onnx(int32_t(node.int_attribute("dtype")), "the attribute 'dtype'");
  const ValueId rows = positions(node, node.input(0), 0, 2, 0), columns = positions(node, node.input(0), 1, 2, 1);
  const ValueId diagonal = node.pointwise(Scalar::add, {rows, node.number(node.int_attribute("k", 0))});
  node.set_output(0, node.cast(node.pointwise(Scalar::equal, {diagonal, columns}), dtype));
}

void import_Trilu(OnnxNode& node) {
  const int64_t rank = node.type(0).rank();
  if (rank < 2) node.bad("the input ", node.type(0), " is no matrix");
  const bool upper = node.int_attribute("upper", 1) != 0;
  const ValueId k = node.has(1) ? node.reshape(node.input(1), {}) : node.number(0);
  const ValueId rows = positions(node, node.input(0), rank - 2, 2, 0),
                columns = positions(node, node.input(0), rank - 1, 2, 1);
  const ValueId diagonal = node.pointwise(Scalar::add, {rows, k});
  const ValueId kept = upper ? node.pointwise(Scalar::less_equal, {diagonal, columns})
                             : node.pointwise(Scalar::less_equal, {columns, diagonal});
  node.set_output(0, node.pointwise(Scalar::where, {kept, node.input(0), node.scalar(node.type(0).dtype, 0)}));
}

void import_ReverseSequence(OnnxNode& node) {
  const TensorType x = node.type(0);
  const int64_t batch = normalize_axis(node.int_attribute("batch_axis", 1), x.rank()),
                time = normalize_axis(node.int_attribute("time_axis", 0), x.rank());
  if (batch + time != 1) node.bad("batch_axis ", batch, " and time_axis ", time, " are not 0 and 1");
  if (node.type(1).rank() != 1) node.bad("sequence_lens are ", node.type(1));
  const Shape both{x.shape[0], x.shape[1]}, one{x.shape[0], x.shape[1], Dim(1)};
  Shape along{Dim(1), Dim(1)};
  along[size_t(batch)] = x.shape[size_t(batch)];
  const ValueId lengths = node.reshape(node.cast(node.input(1), DType::i64), along);
  // t < length ? length - 1 - t : t
  ProgramBuilder b({DType::i64, DType::i64});
  const int reversed = b.op(Scalar::sub, b.op(Scalar::sub, 1, b.constant(DType::i64, 1)), 0);
  const Program program = b.result(b.op(Scalar::where, b.op(Scalar::less, 0, 1), reversed, 0));
  const auto column = [&](ValueId id) { return node.reshape(node.add(ops::Broadcast{both}, {id}), one); };
  ValueId from = column(node.program(program, {positions(node, node.input(0), time, 2, time), lengths}));
  ops::Gather op;
  op.kind = ops::GatherKind::nd;
  op.batch_dims = time;
  if (time == 0) from = node.add(ops::Concat{2}, {from, column(positions(node, node.input(0), 1, 2, 1))});
  node.set_output(0, node.add(op, {node.input(0), from}));
}

}  // namespace temper
