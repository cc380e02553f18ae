// SPDX-License-Identifier: Apache-2.0
// narrow_constants, whose constants would be long in a text.
#include "../data/helpers.h"
#include "graph/ops/pointwise.h"
#include "graph/random.h"
#include "passes/pass.h"

namespace temper {
namespace {

// x + c, where element [i, j, k] of c is f(i, j, k); c has `dims`, x the shape of the text.
template <class F>
Graph sum_with(const char* x, const Dims& dims, F&& f) {
  Graph graph;
  Tensor c(DType::f32, dims);
  for (int64_t i = 0; i < c.count(); ++i)
    c.data<float>()[i] = float(f(i / (dims[1] * dims[2]), i / dims[2] % dims[1], i % dims[2]));
  ops::Pointwise op;
  op.program = Program::parse("(2) 2=add.f32(0,1)");
  const ValueId a = graph.add_input("x", TensorType::parse(x)), b = graph.add_constant("c", std::move(c));
  graph.add_output("y", graph.add_single(op, {a, b}, "y"));
  return graph;
}

// The dims of the constant behind the pass; the sum must stay what it was.
Dims narrowed(Graph graph) {
  const std::vector<Tensor> inputs{random_tensor(DType::f32, graph.type(graph.inputs()[0]).dims(), 1)};
  const Tensor before = run_reference(graph, inputs)[0];
  const bool changed = narrow_constants(graph, {});
  graph.compact();
  verify(graph);
  EXPECT_TRUE(run_reference(graph, inputs)[0].same_bits(before));
  const Dims out = graph.type(graph.node({0}).inputs[1]).dims();
  EXPECT_EQ(changed, out != Dims({8, 32, 96}));
  EXPECT_FALSE(narrow_constants(graph, {}));
  return out;
}

TEST(NarrowConstants, AxesAlongWhichOneRepeatsItselfAreKeptOnce) {
  const Dims dims{8, 32, 96};
  const auto of = [&](auto f) { return narrowed(sum_with("f32[8,32,96]", dims, f)); };
  EXPECT_EQ(of([](int64_t, int64_t j, int64_t k) { return j * 100 + k; }), Dims({1, 32, 96}));
  EXPECT_EQ(of([](int64_t i, int64_t, int64_t k) { return i * 100 + k; }), Dims({8, 1, 96}));
  EXPECT_EQ(of([](int64_t, int64_t, int64_t k) { return k; }), Dims({1, 1, 96}));
  EXPECT_EQ(of([](int64_t i, int64_t j, int64_t) { return i * 100 + j; }), dims);  // the innermost stays
  EXPECT_EQ(of([](int64_t, int64_t, int64_t) { return 1; }), Dims({1, 1, 96}));
  EXPECT_EQ(of([](int64_t i, int64_t j, int64_t k) { return i + j + k; }), dims);
  EXPECT_EQ(of([](int64_t i, int64_t j, int64_t k) { return i == 7 && j == 31 && k == 95; }), dims);
}

TEST(NarrowConstants, WhatAloneGivesTheResultItsSizeStays) {
  const auto of_rows = [](int64_t, int64_t j, int64_t k) { return j * 100 + k; };
  EXPECT_EQ(narrowed(sum_with("f32[1,32,96]", {8, 32, 96}, of_rows)), Dims({8, 32, 96}));
  EXPECT_EQ(narrowed(sum_with("f32[96]", {8, 32, 96}, of_rows)), Dims({8, 32, 96}));
}

TEST(NarrowConstants, AVectorStaysAVector) {
  for (const Dims& dims : {Dims({1, 1, 96}), Dims({1, 32, 1}), Dims({8, 1, 1}), Dims({1, 1, 1})}) {
    Graph graph = sum_with("f32[8,32,96]", dims, [](int64_t, int64_t, int64_t) { return 1; });
    EXPECT_FALSE(narrow_constants(graph, {}));
  }
}

}  // namespace
}  // namespace temper
