// SPDX-License-Identifier: Apache-2.0
// patches_as_products: a convolution whose kernel is as large as its strides, without padding and groups, reads each
// element once. With the patches as rows, [N, H/h * W/w, C*h*w], it is a product by its weights [M, C*h*w]^T, whose
// result has the channels last, as tokens; they are transposed to the convolution's output, which cancels where tokens
// are wanted. The same numbers are summed.
//
// The patches are a copy of the image, which is worth it where nothing better reads them in place: kernels that load
// 16 bytes of channels at a time take an image of as many channels as it is, and those for first convolutions take
// small kernels.
#include "passes/patches_as_products.h"

#include <algorithm>

#include "graph/ops/fused.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"

namespace temper {

namespace {

// Input i of an epilogue as it broadcasts to [N, positions, M]; nothing where it differs along other axes than the
// channels.
std::optional<Shape> as_columns(const Shape& shape, size_t rank) {
  Dim columns = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(1)) continue;
    if (i + rank != shape.size() + 1) return std::nullopt;
    columns = shape[i];
  }
  return Shape{columns};
}

bool as_product(Graph& graph, NodeId id, const FusionTaken& taken) {
  const Node node = graph.node(id);
  const auto* op = node.op.get_if<ops::Conv>();
  if (!op || op->group != 1 || !graph.constant(node.inputs[1])) return false;
  const Shape in = graph.type(node.inputs[0]).shape, weights = graph.type(node.inputs[1]).shape,
              out = graph.type(node.outputs[0]).shape;
  const size_t spatial = in.size() - 2;
  const int64_t channels = weights[1].value();
  if (channels * size_of(graph.type(node.inputs[0]).dtype) % 16 == 0) return false;
  int64_t taps = 1;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t size = weights[i + 2].value();
    if (op->strides[i] != size || (op->dilations[i] != 1 && size > 1) || !in[i + 2].is_constant() ||
        in[i + 2].value() % size != 0 || out[i + 2] != Dim(in[i + 2].value() / size))
      return false;
    taps *= size;
  }
  if (taps < 2 || std::ranges::any_of(op->pads, [](int64_t pad) { return pad != 0; })) return false;
  std::vector<ValueId> inputs = node.inputs;
  for (size_t i = 2; i < inputs.size(); ++i)
    if (!as_columns(graph.type(inputs[i]).shape, in.size())) return false;
  if (taken(graph, ops::FusedConv{{}, *op, {}, {}, {}}, node.inputs)) return false;

  // [N, C, H/h, h, W/w, w] to [N, H/h, W/w, C, h, w].
  ops::Reshape cut{{in[0], in[1]}}, rows{{in[0], 1, Dim(channels * taps)}};
  ops::Transpose order{{0}};
  for (size_t i = 0; i < spatial; ++i) {
    cut.shape.push_back(out[i + 2]);
    cut.shape.push_back(weights[i + 2]);
    rows.shape[1] = rows.shape[1] * out[i + 2];
    order.perm.push_back(int64_t(2 + 2 * i));
  }
  order.perm.push_back(1);
  for (size_t i = 0; i < spatial; ++i) order.perm.push_back(int64_t(3 + 2 * i));
  const auto add = [&](Op made, ValueId from, std::string_view what) {
    return graph.add_single(std::move(made), {from}, concat(node.name, what));
  };
  inputs[0] = add(rows, add(order, add(cut, inputs[0], ".cut"), ".patches"), ".rows");
  inputs[1] = graph.add_constant(graph.value(inputs[1]).name + ".matrix",
                                 graph.constant(inputs[1])->reshaped({weights[0].value(), channels * taps}));
  for (size_t i = 2; i < inputs.size(); ++i) {
    const Shape columns = *as_columns(graph.type(inputs[i]).shape, in.size());
    if (const Tensor* constant = graph.constant(inputs[i]))
      inputs[i] =
          graph.add_constant(graph.value(inputs[i]).name + ".columns", constant->reshaped({columns[0].value()}));
    else inputs[i] = add(ops::Reshape{columns}, inputs[i], ".columns");
  }
  ops::MatMul product;
  product.transpose_b = true;
  product.tf32 = op->tf32;
  product.epilogue = op->epilogue;
  const ValueId tokens = graph.add_single(std::move(product), std::move(inputs), node.name);
  graph.rewrite(node.outputs[0], ops::Reshape{out}, {add(ops::Transpose{{0, 2, 1}}, tokens, ".channels")},
                node.name + ".image");
  return true;
}

}  // namespace

bool patches_as_products(Graph& graph, const FusionTaken& taken, const BuildTime& time) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    changed |= as_product(graph, {n}, taken);
  }
  return changed;
}

}  // namespace temper
