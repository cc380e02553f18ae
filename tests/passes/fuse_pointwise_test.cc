// SPDX-License-Identifier: Apache-2.0
// fuse_pointwise on chains that are longer than a program may be.
#include "../data/helpers.h"
#include "graph/ops/pointwise.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {
namespace {

ValueId pointwise(Graph& graph, std::string_view program, std::vector<ValueId> inputs, std::string_view name) {
  ops::Pointwise op;
  op.program = Program::parse(program);
  return graph.add_single(std::move(op), std::move(inputs), name);
}

int32_t fused_nodes(Graph& graph, ValueId last) {
  graph.add_output("y", last);
  EXPECT_TRUE(fuse_pointwise(graph, {}));
  graph.compact();
  verify(graph);
  return graph.node_count();
}

TEST(FusePointwise, ALongChainBecomesProgramsOfTheMostSteps) {
  Graph graph;
  ValueId x = graph.add_input("x", TensorType::parse("f32[1,4]"));
  const ValueId b = graph.add_input("b", TensorType::parse("f32[4]"));
  const int nodes = 10 * int(kMaxProgramSteps);
  for (int i = 0; i < nodes; ++i)
    x = i % 2 ? pointwise(graph, "(2) 2=add.f32(0,1)", {x, b}, concat("v", i))
              : pointwise(graph, "(1) 1=sin.f32(0)", {x}, concat("v", i));
  EXPECT_LE(fused_nodes(graph, x), 15);
}

TEST(FusePointwise, AValueThatTwoOfAChainReadIsTakenOnce) {
  Graph graph;
  ValueId x = graph.add_input("x", TensorType::parse("f32[1,4]"));
  for (int i = 0; i < 10 * int(kMaxProgramSteps) / 2; ++i) {
    const ValueId s = pointwise(graph, "(1) 1=sigmoid.f32(0)", {x}, concat("s", i));
    x = pointwise(graph, "(2) 2=mul.f32(0,1)", {x, s}, concat("v", i));
  }
  EXPECT_LE(fused_nodes(graph, x), 11);
}

}  // namespace
}  // namespace temper
