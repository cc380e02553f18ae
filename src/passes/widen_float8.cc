// SPDX-License-Identifier: Apache-2.0
// widen_float8: matrix products of f8e4m3fn become products of f32, for devices that do not multiply f8e4m3fn. Its
// numbers are exact in f32, so that nothing but the order of sums differs: constants are converted, and what is
// computed is still rounded to f8e4m3fn before.
#include <map>

#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "passes/pass.h"

namespace temper {

bool widen_float8(Graph& graph, const PassOptions& options) {
  std::map<int32_t, ValueId> wide;  // by value
  const auto widened = [&](ValueId id) {
    ValueId& known = wide[id.index];
    if (known.valid()) return known;
    const std::string name = concat(graph.value(id).name, "/f32");
    if (const Tensor* constant = graph.constant(id))
      return known = graph.add_constant(name, constant->converted(DType::f32));
    Program cast;
    cast.push({Scalar::cast, DType::f32, {0, -1, -1}});
    return known = graph.add_single(ops::Pointwise{cast}, {id}, name);
  };
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const Node& found = graph.node({n});
    if (!found.op.is<ops::MatMul>() || graph.type(found.inputs[0]).dtype != DType::f8e4m3fn ||
        (graph.value(found.outputs[0]).users.empty() && !graph.is_output(found.outputs[0])))
      continue;
    const Node node = found;  // nodes are added
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i : {0, 1}) inputs[i] = widened(inputs[i]);
    graph.rewrite(node.outputs[0], node.op, std::move(inputs), node.name);
  }
  return !wide.empty();
}

}  // namespace temper
