// SPDX-License-Identifier: Apache-2.0
// unflatten_products: a product whose rows were flattened to one axis before it and are split again behind it, as
// exporters write a linear layer by Gemm, computes on the axes as they were. The reshapes go, and what stands behind
// them, an activation or a residual sum, may become the product's epilogue.
#include <algorithm>

#include "graph/ops/matmul.h"
#include "graph/ops/reshape.h"
#include "passes/pass.h"

namespace temper {

namespace {

// Along the last axis alone, so that it broadcasts to any rows.
bool is_row(const Shape& shape) {
  return shape.empty() || std::all_of(shape.begin(), shape.end() - 1, [](const Dim& size) { return size == Dim(1); });
}

// `id` is the reshape behind the product.
bool unflatten(Graph& graph, NodeId id) {
  const Node& split = graph.node(id);
  if (!split.op.is<ops::Reshape>() || split.inputs.size() != 1 || !graph.has_single_use(split.inputs[0])) return false;
  const Node* product = graph.producer(split.inputs[0]);
  if (!product || !product->op.is<ops::MatMul>() || product->op.get<ops::MatMul>().transpose_a) return false;
  if (graph.type(product->inputs[1]).rank() != 2) return false;
  const Node* flat = graph.producer(product->inputs[0]);
  if (!flat || !flat->op.is<ops::Reshape>() || flat->inputs.size() != 1) return false;
  const Shape &from = graph.type(flat->inputs[0]).shape, &to = graph.type(split.outputs[0]).shape;
  const Shape &rows = graph.type(product->inputs[0]).shape, &sums = graph.type(product->outputs[0]).shape;
  if (rows.size() != 2 || from.size() < 3 || from.back() != rows.back() || to.back() != sums.back()) return false;
  if (to.size() != from.size() || !std::equal(from.begin(), from.end() - 1, to.begin())) return false;
  for (size_t i = 2; i < product->inputs.size(); ++i)
    if (!is_row(graph.type(product->inputs[i]).shape)) return false;
  std::vector<ValueId> inputs = product->inputs;
  inputs[0] = flat->inputs[0];
  graph.rewrite(split.outputs[0], product->op, std::move(inputs), product->name);
  return true;
}

}  // namespace

bool unflatten_products(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    changed |= unflatten(graph, {n});
  }
  return changed;
}

}  // namespace temper
