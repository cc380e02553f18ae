// SPDX-License-Identifier: Apache-2.0
// Keeps of a graph what its outputs need: by their inputs, and by the sizes in their fields that only data decide.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "graph/data_sizes.h"

namespace temper {

// The items of these ids stay, in their order; the others go.
template <class T>
static void keep(std::deque<T>& items, const std::vector<int32_t>& ids) {
  size_t same = 0;
  while (same < ids.size() && ids[same] == int32_t(same)) ++same;
  if (same < ids.size()) {
    std::vector<int32_t> place(items.size()), at(items.size());  // where an item is, and which is at a place
    std::iota(place.begin(), place.end(), 0);
    std::iota(at.begin(), at.end(), 0);
    for (size_t i = same; i < ids.size(); ++i) {
      const auto from = size_t(place[size_t(ids[i])]);
      if (from == i) continue;
      std::swap(items[i], items[from]);
      at[from] = at[i];
      place[size_t(at[from])] = int32_t(from);
    }
  }
  items.erase(items.begin() + int64_t(ids.size()), items.end());
}

void Graph::compact() {
  // Marks the nodes that the outputs need.
  std::vector<char> state(nodes_.size(), 0);  // 1 needed, 2 open, 3 done
  std::vector<NodeId> needed, stack;
  auto mark = [&](ValueId id) {
    if (!id.valid() || !value(id).producer.valid() || state[size_t(value(id).producer.index)]) return;
    state[size_t(value(id).producer.index)] = 1;
    stack.push_back(value(id).producer);
  };
  for (const GraphOutput& output : outputs_) mark(output.value);
  const DataSizes sizes(*this);
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    for (ValueId input : node(id).inputs) mark(input);
    for (NodeId decider : sizes.deciders(id))
      if (!std::exchange(state[size_t(decider.index)], 1)) stack.push_back(decider);
  }
  for (size_t n = 0; n < state.size(); ++n)
    if (state[n]) needed.push_back({int32_t(n)});
  const auto by_place = [&](NodeId a, NodeId b) {
    return std::pair(places_[size_t(a.index)], a.index) < std::pair(places_[size_t(b.index)], b.index);
  };
  if (!std::ranges::is_sorted(needed, by_place)) std::ranges::sort(needed, by_place);
  // Each in its place, before it its inputs and what decides the sizes in its fields. Without recursion: chains may be
  // 10^5 nodes long.
  std::vector<int32_t> ordered;
  ordered.reserve(needed.size());
  for (NodeId start : needed) {
    stack.push_back(start);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      char& here = state[size_t(id.index)];
      if (here != 1) {
        stack.pop_back();
        if (here == 2) ordered.push_back(id.index);
        here = 3;
        continue;
      }
      here = 2;
      for (NodeId before : sizes.deciders(id))
        if (state[size_t(before.index)] == 1) stack.push_back(before);
      const auto& inputs = nodes_[size_t(id.index)].inputs;
      for (size_t i = inputs.size(); i-- > 0;) {
        if (!inputs[i].valid() || !value(inputs[i]).producer.valid()) continue;
        const NodeId before = value(inputs[i]).producer;
        if (state[size_t(before.index)] == 2) throw std::logic_error("the graph has a cycle");
        if (state[size_t(before.index)] == 1) stack.push_back(before);
      }
    }
  }

  // What stays moves up in its place, since a copy beside it would be as large; the names of what goes are free again.
  std::vector<int32_t> kept;  // values, by new id
  std::vector<ValueId> map(values_.size());
  const auto mapped = [&](ValueId id) {
    ValueId& to = map[size_t(id.index)];
    if (!to.valid()) {
      to = {int32_t(kept.size())};
      kept.push_back(id.index);
    }
    return to;
  };
  for (ValueId& id : inputs_) id = mapped(id);
  for (int32_t n : ordered) {
    Node& node = nodes_[size_t(n)];
    for (ValueId& input : node.inputs)
      if (input.valid()) input = mapped(input);
    for (ValueId& output : node.outputs) output = mapped(output);
  }
  std::vector<GraphOutput> outputs = std::move(outputs_);
  for (GraphOutput& output : outputs) output.value = mapped(output.value);
  for (size_t i = 0; i < map.size(); ++i)
    if (!map[i].valid()) names_.free_number(values_[i].name);
  names_.renumber([&](int32_t v) { return map[size_t(v)].index; });
  keep(values_, kept);
  keep(nodes_, ordered);
  for (Value& value : values_) {
    value.users.clear();
    value.producer = {};
    value.output_uses = 0;
  }
  places_.resize(nodes_.size());
  for (int32_t n = 0; n < node_count(); ++n) {
    const Node& node = nodes_[size_t(n)];
    for (ValueId input : node.inputs)
      if (input.valid()) values_[size_t(input.index)].users.add({n});
    for (ValueId output : node.outputs) values_[size_t(output.index)].producer = {n};
    places_[size_t(n)] = n;
  }
  outputs_.clear();
  output_places_.clear();
  for (const GraphOutput& output : outputs) add_output(output.name, output.value);
  unknown_owners_.clear();
}

}  // namespace temper
