// SPDX-License-Identifier: Apache-2.0
// How long it takes; what it does is in nest_concats.test.
#include <gtest/gtest.h>

#include "graph/ops/concat.h"
#include "passes/pass.h"

namespace temper {
namespace {

// Comparing what each joins with what all others join would take 10^13 steps.
TEST(NestConcats, LaddersOfThousandsTakeAStepForEachValueThatIsJoined) {
  for (const bool first : {true, false}) {
    Graph graph;
    const ValueId x = graph.add_input("x", TensorType::parse("f32[1,1]"));
    ValueId last = x;
    for (int i = 0; i < 30'000; ++i)
      last =
          graph.add_single(ops::Concat{1}, first ? std::vector<ValueId>{last, x} : std::vector<ValueId>{x, last}, "c");
    graph.add_output("y", last);
    nest_concats(graph, {});
    EXPECT_EQ(graph.type(graph.outputs()[0].value).shape[1], Dim(30'001)) << first;
    graph.compact();
    EXPECT_NO_THROW(verify(graph));
  }
}

TEST(NestConcats, WhatManyJoinFromTheBeginningIsFoundInOneWalk) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (int i = 0; i < 600; ++i) inputs.push_back(graph.add_input("x", TensorType::parse("f32[1,1]")));
  for (int n = 2; n <= 600; ++n)
    graph.add_output(concat("y", n), graph.add_single(ops::Concat{1}, {inputs.begin(), inputs.begin() + n}, "c"));
  EXPECT_TRUE(nest_concats(graph, {}));
  graph.compact();
  for (int n = 3; n <= 600; ++n)
    EXPECT_EQ(graph.producer(graph.outputs()[size_t(n) - 2].value)->inputs.size(), 2u) << n;
}

}  // namespace
}  // namespace temper
