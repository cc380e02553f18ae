// SPDX-License-Identifier: Apache-2.0
#include "graph/names.h"

#include <gtest/gtest.h>

#include "base/concat.h"
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

// Square in the number of names, if those that come in the order of their hashes fill the beginning of a smaller table.
TEST(GraphNames, AreRenumberedAsFastAsTheyWereAdded) {
  std::vector<std::string> texts;
  Names names;
  for (int32_t v = 0; v < 287'500; ++v) names.add(texts.emplace_back(concat("node_", v)), v);
  const auto text_of = [&](int32_t v) -> const std::string& { return texts[size_t(v)]; };
  for (int times = 0; times < 20; ++times) names.renumber([](int32_t v) { return v; });
  for (int32_t v = 0; v < int32_t(texts.size()); v += 1000) EXPECT_EQ(names.find(texts[size_t(v)], text_of), v);
  names.renumber([](int32_t v) { return v % 2 ? Names::kNone : v; });
  EXPECT_EQ(names.find("node_1001", text_of), Names::kNone);
  EXPECT_EQ(names.find("node_1002", text_of), 1002);
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
