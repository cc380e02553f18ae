// SPDX-License-Identifier: Apache-2.0
// remove_no_ops: nodes that give back their input (a slice of everything, a pad of nothing, a concat of one, ...), and
// reshapes of reshapes.
#include <algorithm>

#include "graph/ops/broadcast.h"
#include "graph/ops/concat.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"

namespace temper {

namespace {

using ops::Pool;
using ops::Reduce;
using ops::ReduceKind;

bool all_are(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
}

// Reducing axes of size 1 leaves the elements as they are.
bool keeps_elements(const Reduce& reduce, const TensorType& x) {
  switch (reduce.kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::prod: break;
    default: return false;
  }
  return std::all_of(reduce.axes.begin(), reduce.axes.end(),
                     [&](int64_t axis) { return x.shape[size_t(axis)] == Dim(1); });
}

bool all_are(const Shape& dims, const Dim& wanted) {
  return std::all_of(dims.begin(), dims.end(), [&](const Dim& dim) { return dim == wanted; });
}

// At most axes of size 1 are added in front.
bool keeps_elements(const ops::Broadcast& broadcast, const TensorType& x) {
  if (broadcast.shape.size() < x.shape.size()) return false;
  const auto skip = broadcast.shape.begin() + int64_t(broadcast.shape.size() - x.shape.size());
  return std::equal(skip, broadcast.shape.end(), x.shape.begin()) &&
         all_are(Shape(broadcast.shape.begin(), skip), Dim(1));
}

// Where sizes and scales change nothing, all ways to compute a position give the element's own, but for these two.
bool keeps_elements(const ops::Resize& resize, const TensorType& x) {
  return resize.sizes == x.shape &&
         std::all_of(resize.scales.begin(), resize.scales.end(), [](double s) { return s == 1; }) &&
         resize.coordinate != ops::ResizeCoordinate::tf_crop_and_resize &&
         resize.coordinate != ops::ResizeCoordinate::tf_half_pixel_for_nn;
}

// The node's elements are those of input 0 in the same row-major order.
bool gives_input(const Graph& graph, const Node& node) {
  const TensorType& x = graph.type(node.inputs[0]);
  if (node.op.is<ops::Reshape>()) return true;
  if (const auto* op = node.op.get_if<ops::Transpose>()) return std::is_sorted(op->perm.begin(), op->perm.end());
  if (const auto* op = node.op.get_if<ops::Pointwise>()) return op->program.is_identity() && node.inputs.size() == 1;
  // With a second input the axes are data.
  if (const auto* op = node.op.get_if<Reduce>()) return node.inputs.size() == 1 && keeps_elements(*op, x);
  if (node.op.is<ops::Concat>()) return node.inputs.size() == 1;
  // Further inputs are sizes that only the data tells; of a pad the second is the value it fills with.
  if (const auto* op = node.op.get_if<ops::Slice>())
    return node.inputs.size() == 1 && op->sizes == x.shape && all_are(op->steps, 1);
  if (const auto* op = node.op.get_if<ops::Broadcast>()) return node.inputs.size() == 1 && keeps_elements(*op, x);
  if (const auto* op = node.op.get_if<ops::Resize>()) return node.inputs.size() == 1 && keeps_elements(*op, x);
  if (const auto* op = node.op.get_if<ops::Pad>())
    return node.inputs.size() <= 2 && all_are(op->before, Dim(0)) && all_are(op->after, Dim(0));
  if (const auto* op = node.op.get_if<Pool>())
    return op->kind != ops::PoolKind::lp && !op->with_indices && all_are(op->kernel, 1) && all_are(op->strides, 1) &&
           all_are(op->pads, 0);
  return false;
}

}  // namespace

bool remove_no_ops(Graph& graph, const PassOptions&) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    const Node& node = graph.node({n});
    if (node.outputs.size() != 1 || node.inputs.empty() || !node.inputs[0].valid() || !gives_input(graph, node))
      continue;
    const ValueId output = node.outputs[0];
    const bool is_reshape = node.op.is<ops::Reshape>();
    // Behind reshapes lies the value whose elements these are.
    ValueId source = node.inputs[0];
    while (const Node* before = graph.producer(source)) {
      if (!before->op.is<ops::Reshape>() || !before->inputs[0].valid()) break;
      source = before->inputs[0];
      if (graph.type(source) == graph.type(output)) break;
    }
    if (graph.type(source) == graph.type(output)) {
      graph.replace(output, source);
      changed = true;
      continue;
    }
    if (is_reshape && source == node.inputs[0]) continue;
    // A target that depends on data has dimensions that only its own node can name.
    if (is_reshape && node.inputs.size() > 1) continue;
    ops::Reshape reshape;
    reshape.shape = graph.type(output).shape;
    graph.rewrite(output, reshape, {source}, std::string(node.name));
    changed = true;
  }
  return changed;
}

}  // namespace temper
