// SPDX-License-Identifier: Apache-2.0
// fold_constants where constants are too large for a text.
#include <gtest/gtest.h>

#include "graph/ops/pointwise.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"

namespace temper {
namespace {

// Of 17 million halves, which are more than 64 MiB as f32.
TEST(FoldConstants, WeightsIn16BitsBecomeConstantsInF32HoweverLargeTheyAre) {
  const Tensor halves(DType::f16, {17 << 10, 1 << 10});
  ASSERT_GT(2 * halves.bytes(), 64 << 20);
  Graph graph;
  ops::Pointwise cast;
  cast.program = Program::parse("(1) 1=cast.f32(0)");
  const ValueId wide = graph.add_single(cast, {graph.add_constant("w", halves)}, "w.f32");
  graph.add_output("y", graph.add_single(ops::Transpose{{1, 0}}, {wide}, "y"));
  EXPECT_TRUE(fold_constants(graph, {}));
  verify(graph);
  EXPECT_EQ(graph.node_count(), 0);
}

TEST(FoldConstants, ANumberThatABroadcastMakesLargerThan64MiBStaysANode) {
  Graph graph;
  ops::Pointwise sum;
  sum.program = Program::parse("(2) 2=add.f32(0,1)");
  const ValueId column = graph.add_constant("column", Tensor(DType::f32, {17 << 10, 1})),
                row = graph.add_constant("row", Tensor(DType::f32, {1, 1 << 10}));
  graph.add_output("y", graph.add_single(sum, {column, row}, "y"));
  EXPECT_FALSE(fold_constants(graph, {}));
  EXPECT_EQ(graph.node_count(), 1);
}

}  // namespace
}  // namespace temper
