// SPDX-License-Identifier: Apache-2.0
// Which graphs are planned where convolutions could run in chains or with their shortcuts.
#include "optimize/fusion.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "graph/ops/fused.h"

namespace temper {
namespace {

using NodeNames = std::vector<std::string>;

// It takes every chain and every shortcut.
const Tactic any_chain = [] {
  Tactic made{};
  made.name = "fake";
  made.supports = [](const Problem& problem, const Device&) {
    return problem.op.is<ops::ConvChain, ops::ShortcutConv>() ? supported() : refused("it stands alone");
  };
  return made;
}();
const Tactic* const chain_tactics[] = {&any_chain};
const Backend fusing_backend = [] {
  Backend made{"fake",  nullptr, [] { return std::span<const Tactic* const>(chain_tactics); },
               nullptr, nullptr, nullptr};
  made.fuses = true;
  return made;
}();
const Device device{.backend = "fake", .fingerprint = "fake"};

// Two residual blocks with projections, the second one of a quarter of the positions.
Graph two_blocks(int64_t side) {
  const auto image = [](int64_t channels, int64_t size) {
    return concat("f16[1,", channels, ',', size, ',', size, ']');
  };
  const auto conv = [](int64_t stride, int64_t pad) {
    return concat(" strides=[", stride, ',', stride, "] dilations=[1,1] pads=[", pad, ',', pad, ',', pad, ',', pad,
                  "] epilogue=");
  };
  const std::string cast = "\"(1) 1=cast.f16(0)\"", sum = "\"(2) 2=cast.f32(1) 3=add.f32(0,2) 4=cast.f16(3)\"";
  const int64_t half = side / 2;
  return parse_graph(
      concat("graph \"blocks\"\ninput %x: ", image(16, side), "\ninput %t: f16[16,16,3,3]\ninput %w: f16[32,16,1,1]\n",
             "input %s: f16[16,32,3,3]\ninput %u: f16[32,32,1,1]\n", "%a: ", image(16, side), " = conv(%x, %t)",
             conv(1, 1), cast, " @\"conv2\"\n", "%p: ", image(32, side), " = conv(%x, %w)", conv(1, 0), cast,
             " @\"proj\"\n", "%y: ", image(32, side), " = conv(%a, %w, %p)", conv(1, 0), sum, " @\"conv3\"\n",
             "%b: ", image(16, half), " = conv(%y, %s)", conv(2, 1), cast, " @\"conv5\"\n", "%q: ", image(32, half),
             " = conv(%y, %u)", conv(2, 0), cast, " @\"proj4\"\n", "%z: ", image(32, half), " = conv(%b, %w, %q)",
             conv(1, 0), sum, " @\"conv6\"\n", "output \"z\" = %z\n"));
}

NodeNames nodes(const Graph& graph) {
  NodeNames names;
  for (int32_t n = 0; n < graph.node_count(); ++n) names.push_back(graph.node({n}).name);
  return names;
}
NodeNames names(const std::vector<ConvPair>& pairs) {
  NodeNames out;
  for (const ConvPair& pair : pairs) out.push_back(pair.name);
  return out;
}

// Enough positions for the first block's chain, too few for the second one's.
constexpr int64_t kSide = 224;

TEST(Fusion, ShortcutsAreJoinedWhereNoChainIsWorthTiming) {
  Graph graph = two_blocks(kSide / 2);
  const Chains chains = find_chains(graph, {}, fusing_backend, device, {});
  EXPECT_EQ(names(chains.list), NodeNames());
  EXPECT_EQ(nodes(graph), (NodeNames{"conv2", "conv3 + proj", "conv5", "conv6 + proj4"}));
}

TEST(Fusion, AConvolutionTakesItsShortcutIntoAChain) {
  Graph graph = two_blocks(kSide);
  const Chains chains = find_chains(graph, {}, fusing_backend, device, {});
  EXPECT_EQ(names(chains.list), NodeNames{"conv2 + conv3 + proj"});
  EXPECT_FALSE(chains.decided);
  EXPECT_EQ(nodes(graph), (NodeNames{"conv2", "conv3 + proj", "conv5", "conv6 + proj4"}));
  EXPECT_EQ(nodes(chains.graph), (NodeNames{"conv2 + conv3 + proj", "conv5", "conv6 + proj4"}));
}

TEST(Fusion, WhatWasDecidedOfAChainHoldsForTheGraphWithItsShortcutsJoined) {
  Graph graph = two_blocks(kSide);
  find_chains(graph, {}, fusing_backend, device, {});
  const std::string key = decision_key(hex(xxh3(print(graph))), device.fingerprint);
  for (const bool faster : {false, true}) {
    TimingCache cache;
    cache.fused_pairs.add(key, {{"conv2 + conv3 + proj", faster}});
    Graph again = two_blocks(kSide);
    const Chains chains = find_chains(again, {}, fusing_backend, device, cache);
    EXPECT_TRUE(chains.decided);
    EXPECT_EQ(nodes(again), nodes(graph));
    EXPECT_EQ(nodes(chains.graph),
              faster ? (NodeNames{"conv2 + conv3 + proj", "conv5", "conv6 + proj4"}) : nodes(graph));
  }
}

TEST(Fusion, TheGraphOfAPlanHasANodeForEachOfItsSteps) {
  Graph joined = two_blocks(kSide);
  const Chains chains = find_chains(joined, {}, fusing_backend, device, {});
  const Graph alone = two_blocks(kSide);  // as of a build that measures nothing
  for (const Graph* planned : {&alone, &std::as_const(joined), &chains.graph}) {
    Plan plan;
    Segment& segment = plan.segments.emplace_back();
    for (int32_t n = 0; n < planned->node_count(); ++n) {
      PlanStep& step = segment.steps.emplace_back();
      step.node = planned->node({n}).name;
      step.problem.op = planned->node({n}).op;
    }
    EXPECT_EQ(print(graph_of_plan(two_blocks(kSide), plan, {}, fusing_backend, device)), print(*planned));
  }
}

TEST(Fusion, EitherPassMayBeDisabled) {
  Graph graph = two_blocks(kSide);
  EXPECT_EQ(names(find_chains(graph, {.disabled = {"chain_convs"}}, fusing_backend, device, {}).list), NodeNames());
  EXPECT_EQ(nodes(graph), (NodeNames{"conv2", "conv3 + proj", "conv5", "conv6 + proj4"}));
  graph = two_blocks(kSide);
  const Chains chains = find_chains(graph, {.disabled = {"join_shortcuts"}}, fusing_backend, device, {});
  EXPECT_EQ(nodes(graph), nodes(two_blocks(kSide)));
  EXPECT_EQ(nodes(chains.graph), (NodeNames{"proj", "conv2 + conv3", "conv5", "proj4", "conv6"}));
}

}  // namespace
}  // namespace temper
