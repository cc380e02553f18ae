// SPDX-License-Identifier: Apache-2.0
#include "passes/cached_positions.h"

#include <algorithm>
#include <map>

#include "graph/ops/shape.h"

namespace temper::caches {

Graph part_of(const Graph& graph, ValueId value) {
  std::vector<char> needed(size_t(graph.node_count()), 0), read(size_t(graph.value_count()), 0);
  read[size_t(value.index)] = 1;
  for (int32_t n = graph.node_count(); n-- > 0;) {
    const Node& node = graph.node({n});
    for (const ValueId output : node.outputs) needed[size_t(n)] |= read[size_t(output.index)];
    if (!needed[size_t(n)] || node.op.is<ops::ShapeOf>()) continue;
    for (const ValueId id : node.inputs)
      if (id.valid()) read[size_t(id.index)] = 1;
  }
  Graph part;
  std::map<ValueId, ValueId> map;
  for (const ValueId id : graph.inputs())
    if (read[size_t(id.index)]) map[id] = part.add_input(graph.value(id).name, graph.type(id));
  const auto mapped = [&](ValueId id) {
    if (!id.valid()) return id;
    const auto it = map.find(id);
    if (it != map.end()) return it->second;
    if (const Tensor* constant = graph.constant(id))
      return map[id] = part.add_constant(graph.value(id).name, *constant);
    return map[id] = part.add_input(graph.value(id).name, graph.type(id));
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    if (!needed[size_t(n)]) continue;
    const Node& node = graph.node({n});
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(mapped(id));
    const auto made = part.add(node.op, inputs, node.name);
    for (size_t o = 0; o < made.size(); ++o) map[node.outputs[o]] = made[o];
  }
  part.add_output("part", mapped(value));
  return part;
}

Tensor value_of(const Graph& part, const Sizes& of, int64_t past, int64_t queries) {
  const Bindings sizes{{of.batch.text(), 1}, {of.queries.text(), queries}, {of.length.text(), past}};
  std::vector<Tensor> inputs;
  for (const ValueId id : part.inputs()) {
    TensorType type = part.type(id);
    for (Dim& dim : type.shape) dim = dim.substitute(sizes);
    if (!type.is_concrete()) refuse("what tokens see depends on '", part.value(id).name, "' ", part.type(id));
    Tensor tensor(type.dtype, type.dims());
    const std::string& name = part.value(id).name;
    if (name == kMask) {
      Tensor ones(DType::i64, tensor.dims());
      std::fill_n(ones.data<int64_t>(), ones.count(), 1);
      tensor = ones.converted(type.dtype);
    } else if (name == kPositions) {
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<int64_t>()[i] = past + i;
    }
    inputs.push_back(std::move(tensor));
  }
  return run_reference(specialize(part, sizes), inputs)[0];
}

Counts counts_of(const Graph& graph, ValueId value, const Sizes& sizes, int64_t most) {
  const Graph part = part_of(graph, value);
  const bool by_position =
      std::count(graph.type(value).shape.begin(), graph.type(value).shape.end(), sizes.queries) > 0;
  for (const Counts counts : {Counts::past, Counts::all, Counts::positions}) {
    if (by_position != (counts == Counts::positions)) continue;
    if (holds_for_sizes(most, [&](int64_t past, int64_t queries) {
          const std::vector<int64_t> values = value_of(part, sizes, past, queries).to_ints();
          for (size_t i = 0; i < values.size(); ++i)
            if (values[i] != past + (counts == Counts::all ? queries : by_position ? int64_t(i) : 0)) return false;
          return true;
        }))
      return counts;
  }
  return Counts::none;
}

}  // namespace temper::caches
