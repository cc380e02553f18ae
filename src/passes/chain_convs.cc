// SPDX-License-Identifier: Apache-2.0
#include "passes/chain_convs.h"

#include <algorithm>
#include <optional>

#include "graph/ops/conv.h"
#include "graph/ops/fused.h"
#include "graph/ops/window.h"

namespace temper {

namespace {

bool all_equal(const std::vector<int64_t>& values, int64_t to) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == to; });
}

// The convolution that may be behind another one: perhaps with a shortcut.
const ops::Conv* behind_of(const Node& node) {
  if (const auto* both = node.op.get_if<ops::ShortcutConv>()) return &both->conv;
  return node.op.get_if<ops::Conv>();
}

bool of_one_tap(const Graph& graph, const Node& node) {
  const ops::Conv* conv = behind_of(node);
  if (!conv || conv->group != 1 || conv->pad_mode != ops::PadMode::explicit_pads || !all_equal(conv->strides, 1) ||
      !all_equal(conv->pads, 0))
    return false;
  const Shape& weights = graph.type(node.inputs[1]).shape;
  return std::all_of(weights.begin() + 2, weights.end(), [](const Dim& dim) { return dim == Dim(1); });
}

// The chain of `before`, a convolution or a pair of them, and `node`, which reads its first output; nothing if they are
// none.
std::optional<ops::ConvChain> chain_of(const Graph& graph, const Node& before, const Node& node) {
  const ops::Conv& behind = *behind_of(node);
  const auto* both = node.op.get_if<ops::ShortcutConv>();
  if (const auto* first = before.op.get_if<ops::Conv>()) {
    if (first->tf32 != behind.tf32 || !graph.has_single_use(node.inputs[0])) return {};
    ops::ConvChain chain{*first, int64_t(before.inputs.size()), behind.epilogue};
    if (!both) return chain;
    chain.shortcut_inputs = int64_t(node.inputs.size()) - both->conv_inputs;
    chain.shortcut_at = both->shortcut_at;
    chain.shortcut = both->shortcut;
    return chain;
  }
  const auto* pair = before.op.get_if<ops::ConvChain>();
  // What the third reads must be there before the first begins.
  if (!pair || both || pair->has_third() || pair->first.tf32 != behind.tf32 || graph.has_single_use(node.inputs[0]) ||
      !std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) { return graph.constant(id); }))
    return {};
  ops::ConvChain chain = *pair;
  chain.then_inputs = int64_t(before.inputs.size()) - chain.first_inputs - chain.shortcut_inputs;
  chain.third = behind.epilogue;
  return chain;
}

}  // namespace

std::vector<ConvPair> chain_convs(Graph& graph, const FusionTaken& taken, const PairWanted& wanted,
                                  const BuildTime& time) {
  std::vector<ConvPair> made;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    time.check_at(n);
    const Node node = graph.node({n});
    if (!of_one_tap(graph, node) || std::count(node.inputs.begin(), node.inputs.end(), node.inputs[0]) != 1) continue;
    const Node* producer = graph.producer(node.inputs[0]);
    if (!producer) continue;
    const Node before = *producer;
    const auto chain = chain_of(graph, before, node);
    if (!chain) continue;
    ConvPair pair{before.name, node.name, concat(before.name, " + ", node.name), chain->has_third()};
    if (!wanted(pair)) continue;
    std::vector<ValueId> inputs = before.inputs;
    // The inputs of a shortcut stay the last ones.
    inputs.insert(inputs.end() - (pair.of_three ? chain->shortcut_inputs : 0), node.inputs.begin() + 1,
                  node.inputs.end());
    if (!taken(graph, *chain, inputs)) continue;
    if (!pair.of_three) {
      graph.rewrite(node.outputs[0], *chain, std::move(inputs), pair.name);
    } else {
      const ValueId before_it = before.outputs[0], last = node.outputs[0];
      const auto results = graph.add(*chain, std::move(inputs), pair.name);
      for (const auto& [old, now] : {std::pair(before_it, results[0]), std::pair(last, results[1])}) {
        graph.replace(old, now);
        graph.swap_names(old, now);
      }
    }
    made.push_back(std::move(pair));
  }
  return made;
}

}  // namespace temper
