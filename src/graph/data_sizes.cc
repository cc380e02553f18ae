// SPDX-License-Identifier: Apache-2.0
#include "graph/data_sizes.h"

namespace temper {

DataSizes::DataSizes(const Graph& graph) : graph_(graph) {
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Shape& shape = graph.type(node.outputs[i]).shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (!shape[axis].is_symbol()) continue;
        std::string symbol = shape[axis].text();
        // As InferContext::unknown names them; another `$` symbol came through an input.
        if (symbol.starts_with('$') && symbol == concat(symbol_of(node.name), ".", i, ".", axis))
          decider_.emplace(std::move(symbol), NodeId{n});
      }
    }
  }
}

std::vector<NodeId> DataSizes::deciders(NodeId id) const {
  std::vector<NodeId> nodes;
  const Node& node = graph_.node(id);
  if (decider_.empty() || is_concrete(node.op)) return nodes;
  const auto in_symbol = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '$';
  };
  const std::string text = fields_text(node.op);
  bool quoted = false;  // texts and programs hold no sizes
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') quoted = !quoted;
    if (quoted || text[at] != '$') continue;
    const size_t begin = at;
    while (at + 1 < text.size() && in_symbol(text[at + 1])) ++at;
    const auto it = decider_.find(text.substr(begin, at + 1 - begin));
    // In a graph from a file the node may come later. Then nothing decides the size in time, and who runs it says so.
    if (it != decider_.end() && it->second < id) nodes.push_back(it->second);
  }
  return nodes;
}

}  // namespace temper
