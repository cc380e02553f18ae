// SPDX-License-Identifier: Apache-2.0
// merge_equal_nodes where a node has many inputs, which a text would not show well.
#include "../data/helpers.h"
#include "graph/ops/concat.h"
#include "graph/ops/pointwise.h"
#include "passes/pass.h"

namespace temper {
namespace {

TEST(MergeEqualNodes, ManyInputsOfOneNodeAreMergedInTheirOrder) {
  for (const int inputs : {63, 64, 1000}) {
    const auto graph_of = [&](bool merged) {
      Graph graph;
      const ValueId x = graph.add_input("x", TensorType::parse("f32[1,2]"));
      std::vector<ValueId> joined;
      for (int i = 0; i < inputs; ++i) {
        ops::Pointwise op;
        op.program = Program::parse(i % 3 == 0 ? "(1) 1=relu.f32(0)" : "(1) 1=neg.f32(0)");
        if (merged && i > 1) joined.push_back(joined[i % 3 == 0 ? 0 : 1]);
        else joined.push_back(graph.add_single(op, {x}, concat("v", i)));
      }
      graph.add_output("y", graph.add_single(ops::Concat{1}, joined, "y"));
      graph.add_output("z", joined.back());
      return graph;
    };
    Graph graph = graph_of(false);
    EXPECT_TRUE(merge_equal_nodes(graph, {}));
    graph.compact();
    verify(graph);
    EXPECT_EQ(print(graph), print(graph_of(true)));
  }
}

}  // namespace
}  // namespace temper
