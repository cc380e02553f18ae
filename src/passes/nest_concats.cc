// SPDX-License-Identifier: Apache-2.0
// nest_concats: a concat that begins with all that an earlier concat along its axis joins begins with that one's output
// instead, as where each layer reads all before it (DenseNet). It has less to copy then, or nothing: a plan may write the
// earlier output straight into the later one (plan/parts.h), but no value into two.
#include <algorithm>

#include "passes/pass.h"

namespace temper {

namespace {

struct Joined {
  NodeId node;
  int64_t axis;
  std::vector<ValueId> inputs;  // those of concats along the same axis in place of these
};

}  // namespace

bool nest_concats(Graph& graph, const PassOptions&) {
  bool changed = false;
  std::vector<Joined> seen;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    const auto* op = std::get_if<ops::Concat>(&graph.node({n}).op);
    if (!op || (graph.value(graph.node({n}).outputs[0]).users.empty() && !graph.is_output(graph.node({n}).outputs[0]))) continue;
    const Node node = graph.node({n});
    Joined joined{{n}, op->axis, {}};
    std::vector<size_t> until;  // by input: how many of joined.inputs there are behind it
    for (ValueId input : node.inputs) {
      const auto same = std::find_if(seen.begin(), seen.end(), [&](const Joined& other) {
        return other.axis == joined.axis && graph.node(other.node).outputs[0] == input;
      });
      if (same == seen.end()) joined.inputs.push_back(input);
      else joined.inputs.insert(joined.inputs.end(), same->inputs.begin(), same->inputs.end());
      until.push_back(joined.inputs.size());
    }
    // The longest.
    const Joined* best = nullptr;
    for (const Joined& other : seen)
      if (other.axis == joined.axis && other.inputs.size() < joined.inputs.size() && (!best || other.inputs.size() > best->inputs.size()) &&
          std::equal(other.inputs.begin(), other.inputs.end(), joined.inputs.begin()))
        best = &other;
    const auto rest = best ? std::find(until.begin(), until.end(), best->inputs.size()) : until.end();
    if (rest != until.end() && rest != until.begin()) {
      const ValueId first = graph.node(best->node).outputs[0];
      std::vector<ValueId> inputs{first};
      inputs.insert(inputs.end(), node.inputs.begin() + (rest - until.begin()) + 1, node.inputs.end());
      const ValueId made = graph.rewrite(node.outputs[0], ops::Concat{joined.axis}, std::move(inputs), node.name);
      joined.node = graph.value(made).producer;
      changed = true;
    }
    seen.push_back(std::move(joined));
  }
  return changed;
}

}  // namespace temper
