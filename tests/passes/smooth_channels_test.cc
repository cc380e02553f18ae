// SPDX-License-Identifier: Apache-2.0
#include "passes/smooth_channels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "passes/pass.h"
#include "passes/pipeline.h"

namespace temper {
namespace {

constexpr int64_t kChannels = 8;

// Constants of normal numbers, stored beside the text of a graph.
class Numbers {
 public:
  std::string matrix(const std::string& name, const Dims& dims) {
    Tensor values(DType::f32, dims);
    for (int64_t i = 0; i < values.count(); ++i) values.data<float>()[i] = normal_(random_);
    stored_.push_back(values);
    return concat("const %", name, ": ", values.type(), " = #", stored_.size() - 1, "\n");
  }
  Graph graph(const std::string& text) const { return parse_graph(text, stored_); }

 private:
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_{0, 1};
  std::vector<Tensor> stored_;
};

// Of the value x: channel 2 is a hundred times as large as the others.
std::map<std::string, SeenChannels> outliers(const std::string& value) {
  SeenChannels seen{std::vector<float>(kChannels, 1), 0.1, 100.0 / 127};
  seen.maxima[2] = 100;
  seen.mean_square = (7 * 0.1 + 1000) / 8;
  return {{value, seen}};
}

Tensor random_rows() {
  Tensor x(DType::f32, {3, 5, kChannels});
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = normal(random);
  return x;
}

// The outputs before and after, bit for bit; behind the passes that fuse what was put in, too.
std::vector<SmoothedValue> smooth_exactly(Graph& graph, const std::set<std::string>& kept = {},
                                          const std::map<std::string, SeenChannels>& seen = outliers("x")) {
  const Graph before = graph;
  std::vector<SmoothedValue> done = smooth_channels(graph, seen, kept);
  graph.compact();
  verify(graph);
  const auto check = [&](const char* when) {
    const std::vector<Tensor> wanted = run_reference(before, {random_rows()}),
                              got = run_reference(graph, {random_rows()});
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(wanted[i].raw(), got[i].raw())) << when << "\n" << print(graph);
  };
  check("smoothed");
  run_passes(graph);
  check("fused");
  if (done.empty()) {
    Graph same = before;
    run_passes(same);
    EXPECT_EQ(print(graph), print(same));
  }
  return done;
}

int nodes_of(const Graph& graph, auto&& is) {
  int count = 0;
  for (int32_t n = 0; n < graph.node_count(); ++n) count += is(graph.node({n}));
  return count;
}
int pointwise_nodes(const Graph& graph) {
  return nodes_of(graph, [](const Node& node) { return node.op.is<ops::Pointwise>(); });
}

const std::string kInput = "graph \"g\"\ninput %in: f32[3,5,8]\n";
std::string normalised(Numbers& numbers, bool bias) {
  return concat(kInput, numbers.matrix("gamma", {8}), numbers.matrix("beta", {8}),
                "%n: f32[3,5,8] = normalize(%in) axes=[2] epsilon=1e-05\n",
                bias ? "%x: f32[3,5,8] = pointwise(%n, %gamma, %beta) program=\"(3) 3=mul.f32(0,1) 4=add.f32(3,2)\"\n"
                     : "%x: f32[3,5,8] = pointwise(%n, %gamma) program=\"(2) 2=mul.f32(0,1)\"\n");
}

TEST(SmoothChannels, ANormalisationTakesTheFactorsOfTheProductsThatShareIt) {
  for (const bool bias : {true, false}) {
    Numbers numbers;
    Graph graph = numbers.graph(concat(normalised(numbers, bias), numbers.matrix("q", {8, 4}),
                                       numbers.matrix("k", {4, 8}), numbers.matrix("v", {8, 6}),
                                       "%a: f32[3,5,4] = matmul(%x, %q) epilogue=\"(1)\" @\"a\"\n"
                                       "%b: f32[3,5,4] = matmul(%x, %k) transpose_b=true epilogue=\"(1)\" @\"b\"\n"
                                       "%c: f32[3,5,6] = matmul(%x, %v) epilogue=\"(1)\" @\"c\"\n",
                                       "output \"a\" = %a\noutput \"b\" = %b\noutput \"c\" = %c\n"));
    const auto done = smooth_exactly(graph);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].value, "x");
    EXPECT_GT(done[0].strength, 0);
    // Before, seven channels of eight had one level of 127 between them and zero.
    EXPECT_LT(done[0].largest, 40);
    EXPECT_EQ(pointwise_nodes(graph), 1) << print(graph);
    EXPECT_EQ(nodes_of(graph,
                       [&](const Node& node) {
                         return node.op.is<ops::MatMul>() && graph.value(node.inputs[0]).name == done[0].smoothed;
                       }),
              3)
        << print(graph);
  }
}

TEST(SmoothChannels, AResidualSumReadsTheValueAsItWas) {
  Numbers numbers;
  Graph graph =
      numbers.graph(concat(normalised(numbers, true), numbers.matrix("w", {8, 8}), numbers.matrix("v", {8, 8}),
                           "%a: f32[3,5,8] = matmul(%x, %w) epilogue=\"(1)\" @\"a\"\n"
                           "%y: f32[3,5,8] = matmul(%a, %v, %x) epilogue=\"(2) 2=add.f32(0,1)\" @\"b\"\n"
                           "%z: f32[3,5,8] = pointwise(%y, %x, %x) program=\"(3) 3=mul.f32(0,1) 4=sub.f32(3,2)\"\n"
                           "output \"z\" = %z\n"));
  EXPECT_EQ(smooth_exactly(graph).size(), 1u);
  EXPECT_EQ(nodes_of(graph,
                     [&](const Node& node) {
                       for (ValueId input : node.inputs)
                         if (graph.value(input).name == "x") return true;
                       return false;
                     }),
            0);
}

TEST(SmoothChannels, AProductTakesThemBehindItsActivation) {
  Numbers numbers;
  Graph graph =
      numbers.graph(concat(kInput, numbers.matrix("w", {8, 8}), numbers.matrix("v", {8, 3}),
                           "%x: f32[3,5,8] = matmul(%in, %w) epilogue=\"(1) 1=sigmoid.f32(0) 2=mul.f32(0,1)\" @\"a\"\n"
                           "%y: f32[3,5,3] = matmul(%x, %v) epilogue=\"(1)\" @\"b\"\n"
                           "output \"y\" = %y\n"));
  EXPECT_EQ(smooth_exactly(graph).size(), 1u);
  EXPECT_EQ(pointwise_nodes(graph), 0) << print(graph);
}

TEST(SmoothChannels, OneValueBehindTheOther) {
  Numbers numbers;
  Graph graph =
      numbers.graph(concat(normalised(numbers, true), numbers.matrix("w", {8, 8}), numbers.matrix("v", {8, 8}),
                           "%a: f32[3,5,8] = matmul(%x, %w) epilogue=\"(1) 1=relu.f32(0)\" @\"a\"\n"
                           "%y: f32[3,5,8] = matmul(%a, %v, %x) epilogue=\"(2) 2=add.f32(0,1)\" @\"b\"\n"
                           "output \"y\" = %y\n"));
  std::map<std::string, SeenChannels> seen = outliers("x");
  seen["a"] = seen["x"];
  const auto done = smooth_exactly(graph, {}, seen);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].value, "x");
  EXPECT_EQ(done[1].value, "a");
  EXPECT_EQ(pointwise_nodes(graph), 1) << print(graph);
}

TEST(SmoothChannels, OtherReadersForbidIt) {
  Numbers numbers;
  const std::string start = concat(normalised(numbers, true), numbers.matrix("w", {8, 8}),
                                   "%a: f32[3,5,8] = matmul(%x, %w) epilogue=\"(1)\" @\"a\"\n"
                                   "output \"a\" = %a\n");
  for (const char* reader :
       {"%s: f32[3,5,8] = softmax(%x) axis=2\noutput \"s\" = %s\n",
        "%s: f32[15,8] = reshape(%x) shape=[15,8]\noutput \"s\" = %s\n", "output \"s\" = %x\n",
        "%s: f32[3,5,5] = matmul(%in, %x) transpose_b=true epilogue=\"(1)\"\noutput \"s\" = %s\n"}) {
    Graph graph = numbers.graph(start + reader);
    EXPECT_TRUE(smooth_exactly(graph).empty()) << reader;
  }
}

TEST(SmoothChannels, BehindAnAttentionTheValueIsDividedWhereItIsRounded) {
  Numbers numbers;
  Graph graph = numbers.graph(concat(kInput, numbers.matrix("w", {8, 3}),
                                     "%h: f32[3,5,2,4] = reshape(%in) shape=[3,5,2,4]\n"
                                     "%t: f32[3,2,5,4] = transpose(%h) perm=[0,2,1,3]\n"
                                     "%s: f32[3,2,5,5] = matmul(%t, %t) transpose_b=true epilogue=\"(1)\" @\"s\"\n"
                                     "%o: f32[3,2,5,4] = matmul(%s, %t) epilogue=\"(1)\" @\"o\"\n"
                                     "%b: f32[3,5,2,4] = transpose(%o) perm=[0,2,1,3]\n"
                                     "%x: f32[3,5,8] = reshape(%b) shape=[3,5,8]\n"
                                     "%y: f32[3,5,3] = matmul(%x, %w) epilogue=\"(1)\" @\"y\"\n"
                                     "output \"y\" = %y\n"));
  EXPECT_EQ(smooth_exactly(graph).size(), 1u);
  EXPECT_EQ(pointwise_nodes(graph), 1) << print(graph);
}

TEST(SmoothChannels, WhatNoProgramComputesStays) {
  Numbers numbers;
  const std::string product =
      numbers.matrix("w", {8, 3}) + "%y: f32[3,5,3] = matmul(%x, %w) epilogue=\"(1)\" @\"y\"\noutput \"y\" = %y\n";
  for (const char* made : {"graph \"g\"\ninput %x: f32[3,5,8]\n",
                           "graph \"g\"\ninput %in: f32[3,5,8]\n%x: f32[3,5,8] = softmax(%in) axis=1\n",
                           "graph \"g\"\ninput %in: f32[3,5,8]\n%t: f32[3,8,5] = transpose(%in) perm=[0,2,1]\n"
                           "%x: f32[3,5,8] = reshape(%t) shape=[3,5,8]\n"}) {
    Graph graph = numbers.graph(made + product);
    EXPECT_TRUE(smooth_exactly(graph).empty()) << made;
  }
}

TEST(SmoothChannels, WhatGainsNothingStays) {
  Numbers numbers;
  const std::string text = concat(normalised(numbers, true), numbers.matrix("w", {8, 8}),
                                  "%a: f32[3,5,8] = matmul(%x, %w) epilogue=\"(1)\" @\"a\"\n"
                                  "output \"a\" = %a\n");
  Graph graph = numbers.graph(text);
  // All channels alike; a product that stays in a float; maxima of another axis; a value that was all zero.
  EXPECT_TRUE(smooth_exactly(graph, {}, {{"x", {std::vector<float>(kChannels, 3), 1, 3.0 / 127}}}).empty());
  EXPECT_TRUE(smooth_exactly(graph, {"a"}).empty());
  EXPECT_TRUE(smooth_exactly(graph, {}, {{"x", {{1, 100}, 1, 1}}}).empty());
  EXPECT_TRUE(smooth_exactly(graph, {}, {{"x", {std::vector<float>(kChannels, 0), 0, 1.0 / 127}}}).empty());
  graph = numbers.graph(text);
  EXPECT_EQ(smooth_exactly(graph).size(), 1u);
}

TEST(SmoothChannels, FactorsArePowersOfTwo) {
  Numbers numbers;
  Graph graph = numbers.graph(concat(normalised(numbers, true), numbers.matrix("w", {8, 8}),
                                     "%a: f32[3,5,8] = matmul(%x, %w) epilogue=\"(1)\" @\"a\"\n"
                                     "output \"a\" = %a\n"));
  const Graph before = graph;
  ASSERT_EQ(smooth_channels(graph, outliers("x"), {}).size(), 1u);
  graph.compact();
  const auto weights = [](const Graph& of) {
    for (int32_t n = 0; n < of.node_count(); ++n)
      if (of.node({n}).op.is<ops::MatMul>()) return of.constant(of.node({n}).inputs[1])->to_doubles();
    return std::vector<double>();
  };
  const std::vector<double> was = weights(before), is = weights(graph);
  ASSERT_EQ(is.size(), was.size());
  for (size_t i = 0; i < is.size(); ++i) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(is[i] / was[i], &exponent), 0.5) << i;
  }
}

}  // namespace
}  // namespace temper
