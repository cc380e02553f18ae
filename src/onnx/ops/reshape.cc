// SPDX-License-Identifier: Apache-2.0
// Imports Reshape, Flatten, Squeeze and Unsqueeze.
#include "graph/ops/reshape.h"

#include <algorithm>

#include "graph/ops/broadcast.h"
#include "graph/ops/gather.h"
#include "graph/ops/nonzero.h"
#include "graph/ops/scatter.h"
#include "graph/ops/shape.h"
#include "onnx/either.h"
#include "onnx/node.h"

namespace temper {

void import_Reshape(OnnxNode& node) {
  const bool allow_zero = node.int_attribute("allowzero", 0) != 0;
  if (node.opset() < 5) {
    const auto target = node.ints_attribute("shape", {});
    node.set_output(
        0, node.reshape(node.input(0),
                        ops::resolve_reshape(node.type(0).shape, Contents(target.begin(), target.end()), false)));
    return;
  }
  ops::Reshape op;
  op.allow_zero = allow_zero;
  node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
}

void import_Flatten(OnnxNode& node) {
  const Shape& shape = node.type(0).shape;
  int64_t axis = node.int_attribute("axis", 1);
  if (axis != int64_t(shape.size())) axis = normalize_axis(axis, int64_t(shape.size()));
  Dim rows = 1, columns = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    (int64_t(i) < axis ? rows : columns) = (int64_t(i) < axis ? rows : columns) * shape[i];
  node.set_output(0, node.reshape(node.input(0), {rows, columns}));
}

namespace {

// The axes attribute or input, in the rank they refer to; nothing when they are data.
std::optional<std::vector<int64_t>> known_axes(OnnxNode& node, int64_t rank) {
  std::vector<int64_t> axes;
  if (node.opset() < 13) axes = node.ints_attribute("axes", {});
  else if (const Contents* contents = node.contents(1))
    for (const Dim& dim : *contents) axes.push_back(dim.value());
  else return std::nullopt;
  for (int64_t& axis : axes) axis = normalize_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) node.bad("an axis is named twice in ", axes);
  return axes;
}

ValueId filled(OnnxNode& node, int64_t count, int64_t value) {
  return node.ints(std::vector<int64_t>(size_t(count), value));
}

// The `count` positions among `rank` that the data `axes` do not name.
ValueId other_positions(OnnxNode& node, ValueId axes, int64_t rank, int64_t count) {
  const ValueId zeros =
      node.add(ops::Broadcast{node.graph().type(axes).shape}, {node.constant(Tensor::of<int64_t>({}, {0}))});
  const ValueId kept = node.add(ops::Scatter{}, {filled(node, rank, 1), axes, zeros});
  return node.reshape(node.add(ops::NonZero{}, {kept}), {Dim(count)});
}

ValueId shape_of(OnnxNode& node, ValueId x) {
  ops::ShapeOf op;
  op.end = node.graph().type(x).rank();
  return node.add(op, {x});
}

// Input 0 without its axes of 1 from `axis` on, and with the sizes `left` of those before. Whether one of a size that
// is open is 1 decides the rank.
OnnxValue squeezed(OnnxNode& node, size_t axis, Shape left) {
  const Shape shape = node.type(0).shape;
  for (; axis < shape.size() && shape[axis].is_constant(); ++axis)
    if (shape[axis] != Dim(1)) left.push_back(shape[axis]);
  if (axis == shape.size()) return node.reshape(node.input(0), left);
  ops::ShapeOf own;
  own.start = int64_t(axis);
  own.end = own.start + 1;
  const ValueId size = node.reshape(node.add(own, {node.input(0)}), {});
  const ValueId is_one = node.pointwise(Scalar::equal, {size, node.scalar(DType::i64, 1)}, DType::boolean);
  const OnnxValue without = squeezed(node, axis + 1, left);
  left.push_back(shape[axis]);
  return either_of(node.graph(), node.name(), is_one, {without}, {squeezed(node, axis + 1, left)})[0];
}

}  // namespace

void import_Squeeze(OnnxNode& node) {
  const Shape shape = node.type(0).shape;
  const int64_t rank = int64_t(shape.size());
  const bool all = node.opset() < 13 ? !node.has_attribute("axes") : !node.has(1);
  if (all) return node.set_output(0, squeezed(node, 0, {}));
  if (const auto axes = known_axes(node, rank)) {
    Shape left;
    for (int64_t i = 0; i < rank; ++i) {
      if (!std::binary_search(axes->begin(), axes->end(), i)) left.push_back(shape[size_t(i)]);
      else if (shape[size_t(i)].is_constant() && shape[size_t(i)] != Dim(1))
        node.bad("axis ", i, " of ", node.type(0), " is not 1");
    }
    return node.set_output(0, node.reshape(node.input(0), left));
  }
  if (node.type(1).rank() != 1 || node.type(1).shape[0].value() > rank)
    node.bad("axes ", node.type(1), " of ", node.type(0));
  const int64_t left = rank - node.type(1).shape[0].value();
  const ValueId positions = other_positions(node, node.input(1), rank, left);
  const ValueId target = node.add(ops::Gather{}, {shape_of(node, node.input(0)), positions});
  node.set_output(0, node.add(ops::Reshape{}, {node.input(0), target}));
}

void import_Unsqueeze(OnnxNode& node) {
  const Shape shape = node.type(0).shape;
  const int64_t more =
      node.opset() < 13 ? int64_t(node.ints_attribute("axes", {}).size()) : element_count(node.type(1).dims());
  constexpr int64_t kMostAxes = 1000;
  if (more > kMostAxes) node.bad(more, " new axes; the limit is ", kMostAxes);
  const int64_t rank = int64_t(shape.size()) + more;
  if (const auto axes = known_axes(node, rank)) {
    Shape wider;
    size_t next = 0;
    for (int64_t i = 0; i < rank; ++i)
      wider.push_back(std::binary_search(axes->begin(), axes->end(), i) ? Dim(1) : shape.at(next++));
    return node.set_output(0, node.reshape(node.input(0), wider));
  }
  const ValueId axes = node.reshape(node.input(1), {Dim(more)});
  const ValueId positions = other_positions(node, axes, rank, int64_t(shape.size()));
  const ValueId target = node.add(ops::Scatter{}, {filled(node, rank, 1), positions, shape_of(node, node.input(0))});
  node.set_output(0, node.add(ops::Reshape{}, {node.input(0), target}));
}

}  // namespace temper
