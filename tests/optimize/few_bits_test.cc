// SPDX-License-Identifier: Apache-2.0
// Models whose weights alone are of few bits, from the graph to what a plan answers.
#include <gtest/gtest.h>

#include <set>

#include "backends/backend.h"
#include "graph/random.h"
#include "optimize/build_engine.h"
#include "optimize/precision.h"
#include "quantize/weights.h"

namespace temper {
namespace {

// x f32[n,40] by two matrices of 8 bits or less, with a bias and a relu between.
Graph model(const WeightFormat& format) {
  Graph graph = parse_graph(
      "graph \"g\"\n"
      "input %x: f32[n,40]\n"
      "const %w: f32[40,50] = #0\n"
      "const %b: f32[50] = #1\n"
      "const %v: f32[9,50] = #2\n"
      "%h: f32[n,50] = matmul(%x, %w)\n"
      "%r: f32[n,50] = pointwise(%h, %b) program=\"(2) 2=add.f32(0,1) 3=relu.f32(2)\"\n"
      "%y: f32[n,9] = matmul(%r, %v) transpose_b=true\n"
      "output \"y\" = %y\n",
      std::vector<Tensor>{random_tensor(DType::f32, {40, 50}, 1), random_tensor(DType::f32, {50}, 2),
                          random_tensor(DType::f32, {9, 50}, 3)});
  EXPECT_EQ(quantize_weights(graph, format).quantized, 2);
  return graph;
}

std::set<std::string> tactics_of(const Plan& plan) {
  std::set<std::string> all;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) all.insert(step.tactic);
  return all;
}

TEST(FewBits, APlanReadsTheIntegersForAnyNumberOfRows) {
  for (const WeightFormat& format : {WeightFormat{8, 32}, WeightFormat{4, 16}, WeightFormat{8, 0}})
    for (const int64_t rows : {1, 5, 40}) {
      const Graph graph = model(format);
      BuildOptions options;
      options.measure = false;
      options.threads = 2;
      options.shapes["x"] = {{rows, 40}, {rows, 40}, {rows, 40}};
      const auto engine = build_engine(graph, {}, options);
      EXPECT_EQ(tactics_of(*engine->plans().at(0)), std::set<std::string>{"cpu.matmul.blocks"});
      const Tensor x = random_tensor(DType::f32, {rows, 40}, 4);
      const std::vector<Tensor> want = run_reference(graph, {x}), got = Session(engine).run({x});
      for (int64_t i = 0; i < want[0].count(); ++i)
        EXPECT_NEAR(got.at(0).data<float>()[i], want[0].data<float>()[i], 2e-5) << rows << ' ' << i;
    }
}

// What is slow for one row may be the best for many.
TEST(FewBits, EveryKernelIsTimedForEachNumberOfRows) {
  BuildOptions options;
  options.threads = 1;
  options.shapes["x"] = {{1, 40}, {96, 40}, {96, 40}};
  const auto engine = build_engine(model({4, 32}), {}, options);
  int64_t timed = 0;
  for (const auto& plan : engine->plans())
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps)
        for (const Candidate& loser : step.losers) {
          EXPECT_EQ(loser.refusal.find("too slow for this op on another batch"), std::string::npos) << loser.config;
          timed += loser.ms >= 0;
        }
  EXPECT_GT(timed, 0);
}

TEST(FewBits, OtherPrecisionsHaveWeightsOfFloats) {
  if (!open_device("cpu").avx512_bf16) GTEST_SKIP() << why_no_bf16();
  BuildOptions options;
  options.measure = false;
  options.threads = 1;
  options.precision = "bf16";
  options.shapes["x"] = {{3, 40}, {3, 40}, {3, 40}};
  const Graph graph = model({8, 32});
  const auto engine = build_engine(graph, {}, options);
  EXPECT_FALSE(tactics_of(*engine->plans().at(0)).contains("cpu.matmul.blocks"));
  const Tensor x = random_tensor(DType::f32, {3, 40}, 4);
  const std::vector<Tensor> want = run_reference(graph, {x}), got = Session(engine).run({x});
  for (int64_t i = 0; i < want[0].count(); ++i)
    EXPECT_NEAR(got.at(0).data<float>()[i], want[0].data<float>()[i], 0.5) << i;
}

}  // namespace
}  // namespace temper
