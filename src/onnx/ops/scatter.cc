// SPDX-License-Identifier: Apache-2.0
// Imports Scatter, ScatterElements, ScatterND and TensorScatter.
#include "graph/ops/scatter.h"

#include <optional>

#include "graph/ops/append.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/range.h"
#include "graph/ops/shape.h"
#include "onnx/small_types.h"

namespace temper {

namespace {
ops::ScatterReduction reduction_of(OnnxNode& node) {
  const std::string word = node.string_attribute("reduction", "none");
  const auto names = enum_names(ops::ScatterReduction{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == word) return ops::ScatterReduction(i);
  node.bad("reduction is '", word, "'");
}

void set_scattered(OnnxNode& node, const ops::Scatter& op) {
  const DType dtype = node.type(0).dtype;
  if (dtype == DType::string && op.reduction != ops::ScatterReduction::none)
    node.unsupported("the reduction '", enum_names(op.reduction)[size_t(op.reduction)], "' of strings");
  const ValueId y = node.add(op, {movable(node, node.input(0)), node.input(1), movable(node, node.input(2))});
  node.set_output(0, moved(node, y, dtype));
}
}  // namespace

void import_ScatterElements(OnnxNode& node) {
  ops::Scatter op;
  op.axis = normalize_axis(node.int_attribute("axis", 0), node.type(0).rank());
  op.reduction = reduction_of(node);
  set_scattered(node, op);
}

void import_Scatter(OnnxNode& node) { import_ScatterElements(node); }

void import_ScatterND(OnnxNode& node) {
  ops::Scatter op;
  op.kind = ops::ScatterKind::nd;
  op.reduction = reduction_of(node);
  set_scattered(node, op);
}

namespace {
// Of axes whose sizes are known, together.
std::optional<int64_t> size_of_axes(const Shape& shape, int64_t first, int64_t last) {
  int64_t size = 1;
  for (int64_t axis = first; axis < last; ++axis) {
    if (!shape[size_t(axis)].is_constant()) return std::nullopt;
    size *= shape[size_t(axis)].value();
  }
  return size;
}
}  // namespace

// A cache's rows from write_indices[batch] on are replaced by the update's.
void import_TensorScatter(OnnxNode& node) {
  const TensorType cache = node.type(0), update = node.type(1);
  if (update.rank() != cache.rank()) node.bad("an update ", update, " of ", cache);
  const int64_t rank = cache.rank(), axis = normalize_axis(node.int_attribute("axis", -2), rank);
  if (axis == 0) node.bad("axis 0 is the batch");
  const std::string mode = node.string_attribute("mode", "linear");
  if (mode != "linear" && mode != "circular") node.bad("mode is '", mode, "'");
  const bool appends = mode == "linear" && node.has(2);
  if (appends && rank == 3 && axis == 1)
    return node.set_output(0, node.add(ops::Append{}, {node.input(0), node.input(1), node.input(2)}));
  // Axes between the batch and the positions (heads) become rows of a larger batch.
  const auto heads = size_of_axes(cache.shape, 1, axis), row = size_of_axes(cache.shape, axis + 1, rank);
  if (appends && heads && row && cache.dtype != DType::string) {
    const Dim batch = cache.shape[0], rows = batch * Dim(*heads);
    const auto rows_of = [&](size_t input) {
      return node.reshape(node.input(input), {rows, node.type(input).shape[size_t(axis)], Dim(*row)});
    };
    const ValueId lengths = node.reshape(
        node.add(ops::Broadcast{{batch, Dim(*heads)}}, {node.reshape(node.input(2), {batch, Dim(1)})}), {rows});
    return node.set_output(0, node.reshape(node.add(ops::Append{}, {rows_of(0), rows_of(1), lengths}), cache.shape));
  }
  auto number = [&](int64_t value) { return node.constant(Tensor::of<int64_t>({}, {value})); };
  auto size_along = [&](ValueId x) {
    ops::ShapeOf size;
    size.start = axis;
    size.end = axis + 1;
    return node.reshape(node.add(size, {x}), {});
  };
  Shape along(size_t(rank), Dim(1)), batch = along;
  along[size_t(axis)] = update.shape[size_t(axis)];
  batch[0] = cache.shape[0];
  ValueId index = node.reshape(node.add(ops::Range{}, {number(0), size_along(node.input(1)), number(1)}), along);
  if (node.has(2)) index = node.pointwise(Scalar::add, {index, node.reshape(node.input(2), batch)});
  if (mode == "circular") index = node.pointwise(Scalar::mod, {index, size_along(node.input(0))});
  ops::Scatter op;
  op.axis = axis;
  node.set_output(0, node.add(op, {node.input(0), node.add(ops::Broadcast{update.shape}, {index}), node.input(1)}));
}

}  // namespace temper
