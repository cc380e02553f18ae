// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_engine.h"

#include <gtest/gtest.h>

#include "graph/ops/gather.h"

namespace temper {
namespace {

constexpr const char* kGraph = R"text(graph "g"
input %x: f32[batch,3,W]
input %scale: f32[3,1]
%y: f32[batch,3,W] = pointwise(%x) program="(1) 1=relu.f32(0)"
%z: f32[3,1] = pointwise(%scale) program="(1) 1=relu.f32(0)"
output "y" = %y
output "z" = %z
)text";

std::shared_ptr<Engine> engine_with(std::map<std::string, ShapeRange> shapes) {
  EngineInfo info;
  info.device = "reference";
  info.model_sha256 = std::string(64, '0');
  info.source_sha256 = info.model_sha256;
  info.shapes = std::move(shapes);
  return std::make_shared<Engine>(info, parse_graph(kGraph), 1);
}
std::shared_ptr<Engine> engine() {
  return engine_with({{"x", {{1, 3, 4}, {8, 3, 16}, {32, 3, 64}}}, {"scale", {{3, 1}, {3, 1}, {3, 1}}}});
}

TEST(BenchEngine, BatchReplacesTheFirstDimensionAndTheProfileGivesTheRest) {
  const std::vector<Dims> shapes = shapes_for_batch(*engine(), 2);
  EXPECT_EQ(shapes, (std::vector<Dims>{{2, 3, 16}, {3, 1}}));
  EXPECT_EQ(batch_of(shapes), 2);
  EXPECT_EQ(shapes_for_batch(*engine(), 0), (std::vector<Dims>{{8, 3, 16}, {3, 1}}));
  EXPECT_EQ(batch_of({{}, {5}}), 5);
  EXPECT_EQ(batch_of({{}}), 1);
}

TEST(BenchEngine, ShapesThatCannotBeRunAreRefused) {
  auto message = [](const Engine& e, int64_t batch) {
    try {
      shapes_for_batch(e, batch);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_NE(message(*engine(), 33).find("'x'"), std::string::npos);  // outside the profile
  EXPECT_NE(message(*engine_with({}), 2).find("'W' of input 'x' is open"), std::string::npos);
  EngineInfo info;
  info.device = "reference";
  const Engine fixed(info, parse_graph("graph \"f\"\ninput %x: f32[4,2]\noutput \"x\" = %x\n"), 1);
  EXPECT_EQ(message(fixed, 2), "the model's batch is fixed to 4, 2 cannot be run");
  EXPECT_EQ(shapes_for_batch(fixed, 4), (std::vector<Dims>{{4, 2}}));
}

// Token types of a text model, say.
TEST(BenchEngine, IntegersThatMayBePositionsAreThoseOfEveryTable) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::i64, {1, 16}});
  const ValueId table = graph.add_constant("table", Tensor(DType::f32, {2, 8}));
  graph.add_output("y", graph.add_single(ops::Gather{}, {table, x}, "gather"));
  EngineInfo info;
  info.device = "reference";
  BenchSession session(std::make_shared<Engine>(info, std::move(graph), 1), std::vector<Dims>{{1, 16}});
  EXPECT_NO_THROW(session.run());
}

TEST(BenchEngine, RunIsACompleteResult) {
  TimerOptions timer;
  timer.warmup = 2;
  timer.iterations = 50;
  BenchRun run = bench_engine(engine(), shapes_for_batch(*engine(), 2), timer);
  run.model = "m";
  run.notes["command"] = run.notes["plan_bytes"] = run.notes["build_s"] = "not from a file";
  EXPECT_NO_THROW(check({read_environment(1), {run}}));
  EXPECT_EQ(run.batch, 2);
  EXPECT_EQ(run.samples, 50);
  EXPECT_EQ(run.warmup_runs, 2);
  EXPECT_EQ(run.shapes.at("x"), (std::vector<int64_t>{2, 3, 16}));
  EXPECT_GT(run.latency.median.value(), 0);
  EXPECT_GT(run.first_run_ms.value(), 0);
  EXPECT_TRUE(run.notes.contains("latency_ms"));  // the plan was made without measuring
}

}  // namespace
}  // namespace temper
