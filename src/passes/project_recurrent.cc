// SPDX-License-Identifier: Apache-2.0
// project_recurrent: what a recurrent net multiplies its inputs by becomes one product for all steps and directions;
// only products of the state are left to it, which need the step before.
//
// Biases come as those of the inputs' products, then those of the state's. The latter are added to the former, too, but
// where a gate stands between (gru: the reset gate, if it multiplies the product).
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "passes/pass.h"

namespace temper {

namespace {

enum Input : size_t { kX, kW, kR, kB };

struct Biases {
  ValueId product, state;  // f32 [columns]; [directions, wide] where a gate stands between
};

Biases constant_biases(Graph& graph, const Node& node, const Tensor& b, bool apart) {
  const int64_t directions = b.dims()[0], wide = b.dims()[1] / 2, columns = directions * wide;
  const std::vector<double> all = b.to_doubles();
  std::vector<double> before(static_cast<size_t>(columns)), behind(static_cast<size_t>(columns));
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t j = 0; j < wide; ++j) {
      const double of_state = all[size_t((d * 2 + 1) * wide + j)];
      before[size_t(d * wide + j)] = all[size_t(d * 2 * wide + j)] + (apart ? 0 : of_state);
      behind[size_t(d * wide + j)] = of_state;
    }
  Biases biases;
  biases.product = graph.add_constant(node.name + ".b", Tensor::of<double>({columns}, before).converted(DType::f32));
  if (apart)
    biases.state =
        graph.add_constant(node.name + ".rb", Tensor::of<double>({directions, wide}, behind).converted(b.dtype()));
  return biases;
}

Biases computed_biases(Graph& graph, const Node& node, ValueId b, int64_t directions, int64_t wide, bool apart) {
  const auto half = [&](int64_t first, std::string_view what) {
    ops::Slice slice = ops::slice_all({Dim(directions), Dim(wide)});
    slice.starts[1] = Dim(first);
    return graph.add_single(std::move(slice), {b}, concat(node.name, what));
  };
  const ValueId before = half(0, ".wb"), behind = half(wide, ".rb");
  std::vector<ValueId> added{before};
  if (!apart) added.push_back(behind);
  Program sum;
  sum.inputs = int(added.size());
  const DType dtype = graph.type(b).dtype;
  for (int i = 0; i < sum.inputs && dtype != DType::f32; ++i) sum.push({Scalar::cast, DType::f32, {i, -1, -1}});
  if (!apart) {
    const int first = dtype == DType::f32 ? 0 : sum.inputs;
    sum.push({Scalar::add, DType::f32, {first, first + 1, -1}});
  }
  const ValueId all =
      sum.is_identity() ? before : graph.add_single(ops::Pointwise{sum}, std::move(added), node.name + ".sum");
  return {graph.add_single(ops::Reshape{{Dim(directions * wide)}}, {all}, node.name + ".b"),
          apart ? behind : ValueId{}};
}

bool project(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  ops::Recurrent op = node.op.get<ops::Recurrent>();
  if (op.projected) return false;
  const Tensor* w = graph.constant(node.inputs[kW]);
  const TensorType x = graph.type(node.inputs[kX]), weights = graph.type(node.inputs[kW]);
  if (!weights.is_concrete() || x.dtype == DType::f64) return false;

  const Dims dims = weights.dims();
  const int64_t directions = dims[0], wide = dims[1], columns = directions * wide;
  std::vector<ValueId> product{
      node.inputs[kX],
      w ? graph.add_constant(node.name + ".w", w->reshaped({columns, dims[2]}))
        : graph.add_single(ops::Reshape{{Dim(columns), Dim(dims[2])}}, {node.inputs[kW]}, node.name + ".w")};
  std::vector<ValueId> inputs = node.inputs;
  ops::MatMul matmul{.transpose_b = true};
  Program& epilogue = matmul.epilogue;  // of sums in f32
  epilogue = {};
  const bool has_biases = node.inputs.size() > kB && node.inputs[kB].valid();
  epilogue.inputs = has_biases ? 2 : 1;
  if (has_biases) {
    const bool apart = op.kind == ops::RecurrentKind::gru && op.linear_before_reset;
    const Tensor* b = graph.constant(node.inputs[kB]);
    const Biases biases = b ? constant_biases(graph, node, *b, apart)
                            : computed_biases(graph, node, node.inputs[kB], directions, wide, apart);
    product.push_back(biases.product);
    inputs[kB] = biases.state;
    epilogue.push({Scalar::add, DType::f32, {0, 1, -1}});
  }
  if (x.dtype != DType::f32) epilogue.push({Scalar::cast, x.dtype, {has_biases ? 2 : 0, -1, -1}});
  inputs[kX] = graph.add_single(std::move(matmul), std::move(product), node.name + ".inputs");
  inputs[kW] = {};
  op.projected = true;
  const std::vector<ValueId> outputs = graph.add(std::move(op), std::move(inputs), node.name);
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph.swap_names(node.outputs[i], outputs[i]);
    graph.replace(node.outputs[i], outputs[i]);
  }
  return true;
}

}  // namespace

bool project_recurrent(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (graph.node({n}).op.is<ops::Recurrent>()) changed |= project(graph, {n});
  }
  return changed;
}

}  // namespace temper
