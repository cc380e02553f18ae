// SPDX-License-Identifier: Apache-2.0
// Imports Slice and Split.
#include "graph/ops/slice.h"

#include <cmath>

#include "onnx/node.h"

namespace temper {

void import_Slice(OnnxNode& node) {
  std::vector<ValueId> inputs{node.input(0)};
  if (node.opset() < 10) {
    const auto starts = node.ints_attribute("starts", {}), ends = node.ints_attribute("ends", {});
    inputs.push_back(node.ints(starts));
    inputs.push_back(node.ints(ends));
    inputs.push_back(node.has_attribute("axes") ? node.ints(node.ints_attribute("axes", {})) : ValueId{});
  } else {
    for (size_t i = 1; i < 5; ++i) inputs.push_back(i < 3 ? node.input(i) : node.optional_input(i));
  }
  node.set_output(0, node.add(ops::Slice{}, inputs));
}

void import_Split(OnnxNode& node) {
  const Shape shape = node.type(0).shape;
  const size_t axis = size_t(normalize_axis(node.int_attribute("axis", 0), int64_t(shape.size())));
  const int64_t parts = int64_t(node.output_count());
  std::optional<Contents> sizes;
  if (node.has(1) && is_float(node.type(1).dtype)) {
    // In opset 1 they are of the type of what is split.
    if (node.opset() > 1) node.bad("split is ", node.type(1));
    sizes.emplace();
    for (double size : node.constant_doubles(1, "split")) {
      if (!(size >= 0 && size < 1e15) || size != std::floor(size)) node.bad("a part of ", size, " elements");
      sizes->push_back(Dim(int64_t(size)));
    }
  }
  const bool by_attribute = node.opset() < 13 && !node.has(1);
  if (!sizes && by_attribute && node.has_attribute("split")) {
    const auto split = node.ints_attribute("split", {});
    sizes.emplace(split.begin(), split.end());
  } else if (!sizes && !node.has(1)) {
    const Dim& size = shape[axis];
    sizes.emplace();
    if (node.opset() >= 18) {
      if (node.int_attribute("num_outputs") != parts)
        node.bad("num_outputs is ", node.int_attribute("num_outputs"), " but there are ", parts, " outputs");
      const Dim each = ceil_div(size, Dim(parts));  // the last one may be smaller
      for (int64_t i = 0; i + 1 < parts; ++i) sizes->push_back(each);
      sizes->push_back(size - each * Dim(parts - 1));
    } else {
      if (size.is_constant() && size.value() % parts != 0)
        node.bad("axis ", axis, " of ", node.type(0), " does not split into ", parts, " equal parts");
      sizes->assign(size_t(parts), floor_div(size, Dim(parts)));
    }
  } else if (!sizes && node.contents(1)) {
    sizes = *node.contents(1);
  }
  if (sizes) {
    if (int64_t(sizes->size()) != parts) node.bad("split ", *sizes, " for ", parts, " outputs");
    ops::Slice op = ops::slice_all(shape);
    Dim start = 0;
    for (size_t i = 0; i < sizes->size(); ++i) {
      op.starts[axis] = start;
      op.sizes[axis] = (*sizes)[i];
      start = start + (*sizes)[i];
      if (node.wants_output(i)) node.set_output(i, node.add(op, {node.input(0)}));
    }
    if (start.is_constant() && shape[axis].is_constant() && start != shape[axis])
      node.bad("split ", *sizes, " of axis ", axis, " of ", node.type(0));
    return;
  }
  // The sizes are data: each part starts where the one before it ends.
  const ValueId axes = node.ints({int64_t(axis)});
  ValueId start = node.ints({0});
  for (int64_t i = 0; i < parts; ++i) {
    ops::Slice one;
    one.starts = {Dim(i)};
    one.sizes = {Dim(1)};
    one.steps = {1};
    const ValueId end = node.pointwise(Scalar::add, {start, node.add(one, {node.input(1)})});
    node.set_output(size_t(i), node.add(ops::Slice{}, {node.input(0), start, end, axes, {}}));
    start = end;
  }
}

}  // namespace temper
