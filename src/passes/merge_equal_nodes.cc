// SPDX-License-Identifier: Apache-2.0
// merge_equal_nodes: constants of equal bits are one constant; nodes of the same op, fields and inputs are one node.
#include <map>
#include <unordered_map>

#include "base/hash.h"
#include "passes/pass.h"

namespace temper {

namespace {

bool merge_constants(Graph& graph) {
  // Only constants that share their type with another one are hashed: most weights are not.
  std::map<std::string, std::vector<ValueId>> by_type;
  for (int32_t v = 0; v < graph.value_count(); ++v)
    if (graph.value({v}).constant && (!graph.value({v}).users.empty() || graph.is_output({v})))
      by_type[graph.type({v}).text()].push_back({v});
  bool changed = false;
  for (const auto& [type, values] : by_type) {
    if (values.size() < 2) continue;
    std::vector<std::span<const std::byte>> contents;
    for (ValueId id : values) contents.push_back(graph.constant(id)->raw());
    const std::vector<uint64_t> hashes = xxh3_of_each(contents);
    std::unordered_multimap<uint64_t, ValueId> seen;
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId id = values[i];
      const Tensor& tensor = *graph.constant(id);
      const uint64_t hash = hashes[i];
      const auto [first, last] = seen.equal_range(hash);
      ValueId same;
      for (auto it = first; it != last && !same.valid(); ++it)
        if (graph.constant(it->second)->same_bits(tensor)) same = it->second;
      if (same.valid()) {
        graph.replace(id, same);
        changed = true;
      } else {
        seen.emplace(hash, id);
      }
    }
  }
  return changed;
}

}  // namespace

bool merge_equal_nodes(Graph& graph, const PassOptions&) {
  bool changed = merge_constants(graph);
  std::unordered_map<std::string, NodeId> seen;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    std::string key(name_of(node.op));
    for (ValueId input : node.inputs) key += concat(' ', input.index);
    key += concat('(', node.outputs.size(), ") ", fields_text(node.op));
    const auto [it, fresh] = seen.emplace(std::move(key), NodeId{n});
    if (fresh) continue;
    const std::vector<ValueId> outputs = node.outputs, same = graph.node(it->second).outputs;
    // Sizes that depend on data carry the name of the node that finds them.
    bool types_agree = true;
    for (size_t i = 0; i < outputs.size(); ++i) types_agree &= graph.type(outputs[i]) == graph.type(same[i]);
    if (!types_agree) continue;
    for (size_t i = 0; i < outputs.size(); ++i) graph.replace(outputs[i], same[i]);
    changed = true;
  }
  return changed;
}

}  // namespace temper
