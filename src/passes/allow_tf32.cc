// SPDX-License-Identifier: Apache-2.0
// allow_tf32: convolutions and matrix products of f32 may round their operands to TF32.
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "graph/product.h"
#include "passes/lower_precision.h"

namespace temper {

namespace {

void allow(Op& op) {
  if (auto* conv = op.get_if<ops::Conv>()) conv->tf32 = true;
  if (auto* matmul = op.get_if<ops::MatMul>()) matmul->tf32 = true;
}

}  // namespace

Lowering allow_tf32(const Graph& graph, const std::map<std::string, std::string>& kept, const BuildTime& time) {
  Lowering result;
  Graph& out = result.graph;
  out.name = graph.name;
  std::vector<ValueId> map(size_t(graph.value_count()));
  for (ValueId id : graph.inputs()) map[size_t(id.index)] = out.add_input(graph.value(id).name, graph.type(id));
  auto mapped = [&](ValueId id) {
    if (!id.valid()) return id;
    ValueId& to = map[size_t(id.index)];
    if (!to.valid()) to = out.add_constant(graph.value(id).name, *graph.constant(id));
    return to;
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    time.check_at(n);
    const Node& node = graph.node({n});
    Op op = node.op;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(mapped(input));
    const bool f32 = !node.inputs.empty() && node.inputs[0].valid() && graph.type(node.inputs[0]).dtype == DType::f32;
    const bool product = f32 && is_product(op);
    const auto reason = kept.find(node.name);
    const bool allowed = product && reason == kept.end();
    if (allowed) allow(op);
    result.products += product;
    result.lowered_products += allowed;
    result.changed |= allowed;
    result.nodes.push_back({node.name, std::string(name_of(op)),
                            allowed   ? ""
                            : product ? reason->second
                                      : "it multiplies no matrices of fp32"});
    std::vector<std::string> names;
    for (ValueId output : node.outputs) names.push_back(graph.value(output).name);
    const auto made = out.add(std::move(op), std::move(inputs), node.name, names);
    for (size_t o = 0; o < made.size(); ++o) map[size_t(node.outputs[o].index)] = made[o];
  }
  for (const GraphOutput& output : graph.outputs()) out.add_output(output.name, mapped(output.value));
  return result;
}

}  // namespace temper
