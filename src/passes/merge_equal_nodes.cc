// SPDX-License-Identifier: Apache-2.0
// merge_equal_nodes: constants of equal bits are one constant; nodes of the same op, fields and inputs are one node.
#include <bit>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "graph/ops/concat.h"
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

// The first node that came with a hash.
class FirstOfHash {
 public:
  explicit FirstOfHash(int32_t nodes) : places_(std::bit_ceil(2 * size_t(nodes) + 1)) {}

  struct Found {
    NodeId first;      // the node itself where it is the first
    bool asked_again;  // a later one had come with the hash before
  };
  Found of(uint64_t hash, NodeId node) {
    size_t at = (hash >> 32) & (places_.size() - 1);
    while (places_[at].first.valid() && places_[at].hash != uint32_t(hash)) at = (at + 1) & (places_.size() - 1);
    Place& place = places_[at];
    if (!place.first.valid()) {
      place = {uint32_t(hash), false, node};
      return {node, false};
    }
    return {place.first, std::exchange(place.asked_again, true)};
  }

 private:
  struct Place {
    uint32_t hash = 0;
    bool asked_again = false;
    NodeId first;
  };
  std::vector<Place> places_;
};

}  // namespace

bool merge_equal_nodes(Graph& graph, const PassOptions& options) {
  bool changed = merge_constants(graph);
  std::vector<ValueId> merged;  // by value: itself, or the equal one that stays
  merged.reserve(size_t(graph.value_count()));
  for (int32_t v = 0; v < graph.value_count(); ++v) merged.push_back({v});
  const auto of = [&](ValueId id) { return id.valid() ? merged[size_t(id.index)] : id; };
  const auto key_of = [&](NodeId id) {
    const Node& node = graph.node(id);
    std::string key(name_of(node.op));
    for (ValueId input : node.inputs) key += concat(' ', of(input).index);
    key += concat('(', node.outputs.size(), ") ", fields_text(node.op));
    return key;
  };
  // Most nodes have inputs that no other node of their kind has: texts are made of the others alone.
  FirstOfHash first_of_hash(graph.node_count());
  std::unordered_map<std::string, NodeId> seen;
  std::vector<ValueId> gone;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    const Node& node = graph.node({n});
    auto hash = std::hash<std::string_view>()(name_of(node.op));
    for (ValueId input : node.inputs) hash = (hash ^ size_t(of(input).index) ^ hash >> 29) * 0x9e3779b97f4a7c15;
    const auto [first, asked_again] = first_of_hash.of(hash, {n});
    if (first == NodeId{n}) continue;
    if (!asked_again) seen.emplace(key_of(first), first);
    const auto [it, fresh] = seen.emplace(key_of({n}), NodeId{n});
    if (fresh) continue;
    const ValueIds &outputs = node.outputs, &same = graph.node(it->second).outputs;
    // Sizes that depend on data carry the name of the node that finds them.
    bool types_agree = true;
    for (size_t i = 0; i < outputs.size(); ++i) types_agree &= graph.type(outputs[i]) == graph.type(same[i]);
    if (!types_agree) continue;
    for (size_t i = 0; i < outputs.size(); ++i) merged[size_t(outputs[i].index)] = same[i];
    gone.insert(gone.end(), outputs.begin(), outputs.end());
  }
  if (gone.empty()) return changed;
  // Each replacement looks for its value among all inputs of its users, so many inputs of one node are exchanged at
  // once.
  constexpr size_t kMany = 64;
  for (int32_t n = 0; n < count; ++n) {
    const Node& node = graph.node({n});
    if (node.inputs.size() < kMany || !node.op.is<ops::Concat>() || of(node.outputs[0]) != node.outputs[0]) continue;
    ValueIds inputs = node.inputs;
    for (ValueId& input : inputs) input = of(input);
    if (inputs != node.inputs) graph.rewrite(node.outputs[0], Op(node.op), std::move(inputs), std::string(node.name));
  }
  for (size_t i = 0; i < gone.size(); ++i) {
    options.time.check_at(int64_t(i));
    graph.replace(gone[i], of(gone[i]));
  }
  return true;
}

}  // namespace temper
