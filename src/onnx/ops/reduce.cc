// SPDX-License-Identifier: Apache-2.0
// Imports the Reduce* family.
#include "graph/ops/reduce.h"

#include <algorithm>
#include <numeric>

#include "onnx/node.h"

namespace temper {

namespace {

// `axes` is an attribute, or an input since `input_since`. None at all means every axis, unless noop_with_empty_axes.
void reduce(OnnxNode& node, ops::ReduceKind kind, int64_t input_since = 18) {
  const int64_t rank = node.type(0).rank();
  ops::Reduce op;
  op.kind = kind;
  op.keepdims = node.int_attribute("keepdims", 1) != 0;
  op.noop_with_empty_axes = node.opset() >= input_since && node.int_attribute("noop_with_empty_axes", 0) != 0;
  std::vector<int64_t> axes;
  if (node.opset() < input_since) axes = node.ints_attribute("axes", {});
  else if (node.has(1)) {
    if (!node.contents(1)) {  // the axes are data
      node.set_output(0, node.add(op, {node.input(0), node.input(1)}));
      return;
    }
    axes = node.constant_ints(1, "axes");
  }
  op.axes = ops::resolve_axes(axes, rank, op.noop_with_empty_axes);
  op.noop_with_empty_axes = false;
  node.set_output(0, node.add(op, {node.input(0)}));
}

}  // namespace

void import_ReduceL1(OnnxNode& node) { reduce(node, ops::ReduceKind::l1); }
void import_ReduceL2(OnnxNode& node) { reduce(node, ops::ReduceKind::l2); }
void import_ReduceLogSum(OnnxNode& node) { reduce(node, ops::ReduceKind::log_sum); }
void import_ReduceLogSumExp(OnnxNode& node) { reduce(node, ops::ReduceKind::log_sum_exp); }
void import_ReduceMax(OnnxNode& node) { reduce(node, ops::ReduceKind::max); }
void import_ReduceMean(OnnxNode& node) { reduce(node, ops::ReduceKind::mean); }
void import_ReduceMin(OnnxNode& node) { reduce(node, ops::ReduceKind::min); }
void import_ReduceProd(OnnxNode& node) { reduce(node, ops::ReduceKind::prod); }
void import_ReduceSum(OnnxNode& node) { reduce(node, ops::ReduceKind::sum, 13); }
void import_ReduceSumSquare(OnnxNode& node) { reduce(node, ops::ReduceKind::sum_square); }

}  // namespace temper
