// SPDX-License-Identifier: Apache-2.0
#include "onnx/heads.h"

#include <cmath>

#include "graph/ops/concat.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"

namespace temper {

ValueId merge_heads(OnnxNode& node, ValueId x) {
  const Shape shape = node.graph().type(x).shape;
  return node.reshape(node.add(ops::Transpose{{0, 2, 1, 3}}, {x}), {shape[0], shape[2], shape[1] * shape[3]});
}

ValueId split_heads(OnnxNode& node, ValueId x, int64_t heads) {
  const TensorType type = node.graph().type(x);
  if (type.rank() != 3) node.bad("the heads of ", type, ", which has no 3 axes");
  const Shape& shape = type.shape;
  return node.add(ops::Transpose{{0, 2, 1, 3}},
                  {node.reshape(x, {shape[0], shape[1], heads, floor_div(shape[2], heads)})});
}

namespace microsoft {

int64_t heads_of(OnnxNode& node, const char* name) {
  const int64_t heads = node.int_attribute(name);
  if (heads < 1) node.bad(name, " is ", heads);
  return heads;
}

int64_t head_size(OnnxNode& node, ValueId x, int64_t heads) {
  const Dim& width = node.graph().type(x).shape.back();
  if (heads < 1 || !width.is_constant() || width.value() % heads != 0)
    node.bad(node.graph().type(x), " does not hold ", heads, " heads of one size");
  return width.value() / heads;
}

double scale_of(OnnxNode& node, int64_t size) {
  const double scale = node.float_attribute("scale", 0);
  return scale == 0 ? 1 / std::sqrt(double(size)) : scale;
}

ValueId part(OnnxNode& node, ValueId x, size_t axis, const Dim& start, const Dim& size) {
  ops::Slice op = ops::slice_all(node.graph().type(x).shape);
  if (op.sizes[axis] == size) return x;
  op.starts[axis] = start;
  op.sizes[axis] = size;
  return node.add(op, {x});
}

ValueId rotated(OnnxNode& node, ValueId x, int64_t heads, ValueId cosine, ValueId sine, bool interleaved) {
  const TensorType type = node.graph().type(x);
  const Dim batch = type.shape[0], positions = type.shape[1], half = node.graph().type(cosine).shape.back();
  const int64_t size = head_size(node, x, heads), turned = 2 * half.value();
  if (turned > size) node.bad("cosines ", node.graph().type(cosine), " of heads of ", size, " elements");
  x = node.reshape(x, {batch, positions, heads, size});
  const Shape pairs = interleaved ? Shape{batch, positions, heads, half, 2} : Shape{batch, positions, heads, 2, half};
  const size_t axis = interleaved ? 4 : 3;
  const ValueId paired = node.reshape(part(node, x, 3, 0, turned), pairs);
  const Shape each{batch, positions, heads, half};
  const ValueId a = node.reshape(part(node, paired, axis, 0, 1), each),
                b = node.reshape(part(node, paired, axis, 1, 1), each);
  const auto turn = [&](Scalar sign, ValueId first, ValueId second) {
    ProgramBuilder p(std::vector<DType>(4, type.dtype));
    return node.program(p.result(p.op(sign, p.op(Scalar::mul, 0, 2), p.op(Scalar::mul, 1, 3))),
                        {first, second, cosine, sine});
  };
  Shape single = pairs;
  single[axis] = 1;
  ops::Concat join;
  join.axis = int64_t(axis);
  ValueId y =
      node.add(join, {node.reshape(turn(Scalar::sub, a, b), single), node.reshape(turn(Scalar::add, b, a), single)});
  y = node.reshape(y, {batch, positions, heads, turned});
  if (turned < size) y = node.add(ops::Concat{3}, {y, part(node, x, 3, turned, size - turned)});
  return node.reshape(y, {batch, positions, heads * size});
}

}  // namespace microsoft
}  // namespace temper
