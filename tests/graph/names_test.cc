// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/ops/pointwise.h"

namespace temper {
namespace {

const TensorType kType = TensorType::parse("f32[4]");

ValueId relu(Graph& graph, ValueId x, const char* name) {
  ops::Pointwise op;
  op.program.inputs = 1;
  op.program.push({Scalar::relu, DType::f32, {0, -1, -1}});
  return graph.add_single(op, {x}, name);
}

TEST(GraphNames, EqualNamesAreNumberedWithoutTryingAllBefore) {
  Graph graph;
  for (int i = 0; i < 300'000; ++i) graph.add_input("x", kType);  // 4.5e10 attempts, if each began at 1
  EXPECT_EQ(graph.value(graph.inputs().back()).name, "x.299999");
}

TEST(GraphNames, NumbersThatAreTakenAreLeftOut) {
  Graph graph;
  for (const char* name : {"x.1", "x.2", "x", "x.4"}) graph.add_input(name, kType);
  EXPECT_EQ(graph.value(graph.add_input("x", kType)).name, "x.3");
  EXPECT_EQ(graph.value(graph.add_input("x", kType)).name, "x.5");
  EXPECT_EQ(graph.value(graph.add_input("x.1", kType)).name, "x.1.1");
}

TEST(GraphNames, CompactingFreesTheNamesOfWhatGoes) {
  Graph graph;
  const ValueId x = graph.add_input("x", kType);
  relu(graph, x, "n");                       // n
  const ValueId kept = relu(graph, x, "n");  // n.1
  relu(graph, x, "n");                       // n.2
  relu(graph, x, "m");
  graph.add_output("y", kept);
  graph.compact();
  EXPECT_EQ(graph.value(graph.outputs()[0].value).name, "n.1");
  const ValueId y = graph.outputs()[0].value;
  EXPECT_EQ(graph.value(relu(graph, y, "n")).name, "n");
  EXPECT_EQ(graph.value(relu(graph, y, "n")).name, "n.2");
  EXPECT_EQ(graph.value(relu(graph, y, "n")).name, "n.3");
  EXPECT_EQ(graph.value(relu(graph, y, "m")).name, "m");
  EXPECT_NO_THROW(verify(graph));
}

}  // namespace
}  // namespace temper
