// SPDX-License-Identifier: Apache-2.0
// project_recurrent: what a recurrent net multiplies its inputs by becomes one product for all steps and directions;
// only products of the state are left to it, which need the step before.
#include "graph/ops/matmul.h"
#include "graph/ops/recurrent.h"
#include "passes/pass.h"

namespace temper {

namespace {

enum Input : size_t { kX, kW, kR, kB };

bool visit(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  ops::Recurrent op = node.op.get<ops::Recurrent>();
  if (op.projected) return false;
  const Tensor* w = graph.constant(node.inputs[kW]);
  const bool has_biases = node.inputs.size() > kB && node.inputs[kB].valid();
  const Tensor* b = has_biases ? graph.constant(node.inputs[kB]) : nullptr;
  const TensorType x = graph.type(node.inputs[kX]);
  if (!w || (has_biases && !b) || x.dtype == DType::f64) return false;

  const Dims dims = w->dims();
  const int64_t directions = dims[0], wide = dims[1], columns = directions * wide;
  std::vector<ValueId> product{node.inputs[kX], graph.add_constant(node.name + ".w", w->reshaped({columns, dims[2]}))};
  std::vector<ValueId> inputs = node.inputs;
  ops::MatMul matmul{.transpose_b = true};
  Program& epilogue = matmul.epilogue;  // of sums in f32
  epilogue = {};
  epilogue.inputs = b ? 2 : 1;
  if (b) {
    // b holds those of the inputs' products, then those of the state's. The latter are added to the former, too, but
    // where a gate stands between (gru: the reset gate, if it multiplies the product).
    const bool apart = op.kind == ops::RecurrentKind::gru && op.linear_before_reset;
    const std::vector<double> all = b->to_doubles();
    std::vector<double> before(static_cast<size_t>(columns)), behind(static_cast<size_t>(columns));
    for (int64_t d = 0; d < directions; ++d)
      for (int64_t j = 0; j < wide; ++j) {
        const double of_state = all[size_t((d * 2 + 1) * wide + j)];
        before[size_t(d * wide + j)] = all[size_t(d * 2 * wide + j)] + (apart ? 0 : of_state);
        behind[size_t(d * wide + j)] = of_state;
      }
    product.push_back(
        graph.add_constant(node.name + ".b", Tensor::of<double>({columns}, before).converted(DType::f32)));
    inputs[kB] =
        apart ? graph.add_constant(node.name + ".rb", Tensor::of<double>({directions, wide}, behind).converted(x.dtype))
              : ValueId{};
    epilogue.push({Scalar::add, DType::f32, {0, 1, -1}});
  }
  if (x.dtype != DType::f32) epilogue.push({Scalar::cast, x.dtype, {b ? 2 : 0, -1, -1}});
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
    if (graph.node({n}).op.is<ops::Recurrent>()) changed |= visit(graph, {n});
  }
  return changed;
}

}  // namespace temper
