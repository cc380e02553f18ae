// SPDX-License-Identifier: Apache-2.0
// Specialises a graph: symbols become numbers, and a condition that is known leaves one side of its choose.
#include <unordered_map>

#include "graph/control.h"
#include "graph/ops/choose.h"

namespace temper {

Graph specialize(const Graph& graph, const Bindings& bound) {
  Bindings bindings = bound;
  Graph result;
  result.name = graph.name;
  std::vector<ValueId> map(size_t(graph.value_count()));
  // What only one side of a choose needs may not fit the shapes where the other side will run: it is left out, with the
  // reason, which counts once that side is chosen.
  const std::vector<char> needed = needed_nodes(graph, [&](ValueId id) { return constant_condition(graph, id); });
  std::unordered_map<int32_t, std::shared_ptr<const Error>> left_out;  // by value
  const auto reason = [&](ValueId id) -> std::shared_ptr<const Error> {
    const auto it = id.valid() ? left_out.find(id.index) : left_out.end();
    return it == left_out.end() ? nullptr : it->second;
  };
  for (ValueId id : graph.inputs()) {
    TensorType type = graph.type(id);
    for (Dim& dim : type.shape) dim = dim.substitute(bindings);
    map[size_t(id.index)] = result.add_input(graph.value(id).name, type);
  }
  auto mapped = [&](ValueId id) {
    if (!id.valid()) return ValueId{};
    ValueId& to = map[size_t(id.index)];
    if (!to.valid()) {  // a constant: its tensor is shared
      const Value& value = graph.value(id);
      to = result.add_value(value.name, value.type);
      result.values_.back().constant = value.constant;
      result.values_.back().contents = value.contents;
    }
    return to;
  };
  const auto add = [&](const Node& node) {
    Op op = node.op;
    substitute(op, bindings);
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(reason(input) ? ValueId{} : mapped(input));
    std::vector<std::string> names;
    for (ValueId output : node.outputs) names.push_back(graph.value(output).name);
    return result.add_folded(std::move(op), std::move(inputs), node.name, names);
  };
  // The values of the side that a constant condition chooses, where nothing of their types is left to learn.
  const auto chosen = [&](const Node& node) {
    std::vector<ValueId> side;
    if (const auto why = reason(node.inputs[0])) throw Error(*why);
    const auto condition = constant_condition(result, mapped(node.inputs[0]));
    for (size_t i = 0; condition && i < node.outputs.size(); ++i) {
      const ValueId from = node.inputs[ops::first_of_side(*condition, node.outputs.size()) + i];
      if (const auto why = reason(from)) throw Error(*why);
      if (!from.valid()) with_context([&] { return concat("choose '", node.name, "'"); }, ops::fail_left_out);
      side.push_back(mapped(from));
      const TensorType& type = result.type(side.back());
      if (!type.is_concrete() && type != graph.type(node.outputs[i])) return std::vector<ValueId>();
    }
    return side;
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    std::vector<ValueId> outputs;
    try {
      const bool chooses = node.op.is<ops::Choose>();
      if (chooses) outputs = chosen(node);
      for (ValueId input : node.inputs)
        if (const auto why = reason(input); why && !chooses) throw Error(*why);
      if (outputs.empty()) outputs = add(node);
    } catch (const Error& error) {
      if (needed[size_t(n)]) throw;
      const auto why = std::make_shared<const Error>(error);
      for (ValueId output : node.outputs) left_out[output.index] = why;
      continue;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      map[size_t(node.outputs[i].index)] = outputs[i];
      // A dimension that only data decides is known where the data turned out to be shapes; others may still be open.
      const Shape &from = graph.type(node.outputs[i]).shape, &to = result.type(outputs[i]).shape;
      for (size_t axis = 0; axis < from.size() && from.size() == to.size(); ++axis)
        if (from[axis].is_symbol() && to[axis].is_constant()) bindings.try_emplace(from[axis].text(), to[axis].value());
    }
  }
  for (const GraphOutput& output : graph.outputs()) result.add_output(output.name, mapped(output.value));
  result.compact();
  return result;
}

}  // namespace temper
