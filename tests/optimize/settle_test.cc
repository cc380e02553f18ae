// SPDX-License-Identifier: Apache-2.0
// Times that builds take and keep, on a machine whose clock and load are scripted.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "../tune/fake_machine.h"
#include "base/log.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/pointwise.h"
#include "optimize/build_engine.h"
#include "optimize/whole.h"
#include "tune/cache.h"

namespace temper {
namespace {

Tensor ones(const Dims& dims) {
  Tensor tensor(DType::f32, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = 1;
  return tensor;
}

// A convolution, and where it is wanted a transposed one in f64, which has no kernel on the CPU: most of its outputs
// are zeros, so that no convolutions are made of it.
Graph network(bool transposed) {
  Graph graph;
  ops::Conv conv;
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  ValueId x = graph.add_input("x", {DType::f32, {1, 8, 8, 8}});
  x = graph.add_single(conv, {x, graph.add_constant("w", ones({8, 8, 3, 3}))}, "conv");
  if (transposed) {
    x = graph.add_single(ops::Pointwise{Program::parse("(1) 1=cast.f64(0)")}, {x}, "wide");
    ops::ConvTranspose up;
    up.strides = {3, 3};
    up.dilations = {1, 1};
    up.pads = {0, 0, 0, 0};
    up.output_padding = {0, 0};
    x = graph.add_single(up, {x, graph.add_constant("v", ones({8, 4, 1, 1}).converted(DType::f64))}, "up");
    x = graph.add_single(ops::Pointwise{Program::parse("(1) 1=cast.f32(0)")}, {x}, "narrow");
  }
  graph.add_output("y", x);
  return graph;
}

std::vector<std::string> said;

class Settle : public ::testing::Test {
 protected:
  FakeMachine machine;
  const std::string cache = concat(::testing::TempDir(), "/temper_settle_", getpid(), ".json");
  int measured = 0;  // candidates, by the last build
  double time_limit = 120;
  int64_t workspace = -1;

  void SetUp() override {
    std::filesystem::remove(cache);
    said.clear();
    set_log_callback([](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) said.emplace_back(text);
    });
  }
  void TearDown() override {
    set_log_callback(nullptr);
    std::filesystem::remove(cache);
  }
  std::shared_ptr<Engine> build(const Graph& graph, bool measure = true) {
    BuildOptions options;
    options.threads = 1;
    options.timing_cache = cache;
    options.measure = measure;
    options.time_limit = time_limit;
    options.workspace = workspace;
    options.instruments = machine.instruments();
    measured = 0;
    options.progress = [&](const ProgressStep& step) {
      measured += step.what.find("measuring candidates") != std::string::npos;
    };
    return build_engine(graph, {}, options);
  }
  static bool was_said(const std::string& part) {
    return std::any_of(said.begin(), said.end(), [&](const std::string& text) { return text.find(part) != text.npos; });
  }
};

TEST_F(Settle, WhatABusyBuildTimedIsTimedAgainByTheNextQuietOneAndThenBelieved) {
  machine.others = 1;
  build(network(false));
  const int all = measured;
  EXPECT_GT(all, 0);
  EXPECT_TRUE(was_said("other processes used up to 1 of"));
  build(network(false));
  EXPECT_EQ(measured, 0) << "measured again although the machine was busy still";
  said.clear();
  machine.others = 0;
  build(network(false));
  EXPECT_EQ(measured, all);
  EXPECT_TRUE(said.empty()) << said[0];
  build(network(false));
  EXPECT_EQ(measured, 0);
}

TEST_F(Settle, ThePlanHasTheTimeOfTheWholeAndOfEveryStep) {
  machine.call_ms = 3;
  const auto plan = build(network(false))->plans().at(0);
  EXPECT_EQ(plan->whole.ms, 3);
  EXPECT_GE(plan->whole.runs, 6);
  EXPECT_EQ(plan->whole.load, 0);
  EXPECT_EQ(plan->untimed_steps(), 0);
  const auto unmeasured = build(network(false), false)->plans().at(0);
  EXPECT_FALSE(unmeasured->whole.is_measured());
  EXPECT_GT(unmeasured->untimed_steps(), 0);
  EXPECT_EQ(unmeasured->steps_ms(), 0);
}

TEST_F(Settle, AStepOnTheReferenceHasItsTimeInTheSumAndAWarningOfItsOwn) {
  const auto plan = build(network(true))->plans().at(0);
  bool found = false;
  for (const PlanStep& step : plan->segments.at(0).steps)
    if (step.tactic == "reference") {
      found = true;
      EXPECT_GT(step.ms, 0);
    }
  EXPECT_TRUE(found);
  EXPECT_TRUE(was_said("'up' (conv_transpose) runs on the slow scalar reference")) << said.size();
}

// The cache says a twentieth of what the clock does now.
TEST_F(Settle, TimesThatContradictTheWholePlanAreTakenAgain) {
  machine.call_ms = 10;
  build(network(false));
  machine.call_ms = 200;
  const auto plan = build(network(false))->plans().at(0);
  EXPECT_GT(measured, 0);
  const TimingCache times(cache);
  for (const auto& [key, entry] : times.entries())
    if (key.find("conv(") != key.npos) { EXPECT_EQ(entry.ms, 200) << key; }
}

TEST_F(Settle, OnABusyMachineAContradictionIsNotMeasuredAgain) {
  build(network(false));
  machine.call_ms = 100;
  machine.others = 2;
  build(network(false));
  EXPECT_EQ(measured, 0);
  EXPECT_TRUE(was_said("other processes used up to 2 of"));
}

int64_t sum(const std::map<std::string, int64_t>& counts) {
  int64_t all = 0;
  for (const auto& [tactic, count] : counts) all += count;
  return all;
}

// Every measurement takes 60 ms by this clock, every candidate several; some CPUs have three for this convolution.
TEST_F(Settle, WhatASearchHasNoTimeForIsLeftOutAndSaid) {
  const auto whole = build(network(false));
  const int all = measured;
  ASSERT_GT(all, 2);
  EXPECT_TRUE(whole->plans().at(0)->not_measured.empty());
  std::filesystem::remove(cache);
  time_limit = 0.1;
  const auto cut = build(network(false));
  const Plan& plan = *cut->plans().at(0);
  EXPECT_GT(measured, 0);
  EXPECT_GT(sum(plan.not_measured), 0);
  EXPECT_EQ(measured + sum(plan.not_measured), all);
  const std::string expected = concat("the search ended after 0.1 s (--time-limit): ", all - measured, " candidate");
  EXPECT_TRUE(std::ranges::any_of(cut->info().notes, [&](const std::string& note) {
    return note.starts_with(expected) && note.find(plan.not_measured.begin()->first) != note.npos;
  })) << (cut->info().notes.empty() ? "no note" : cut->info().notes.back());
  int64_t untimed = 0;
  for (const PlanStep& step : plan.segments.at(0).steps)
    for (const Candidate& loser : step.losers)
      untimed += loser.refusal == "not timed: the search had taken its time (--time-limit)";
  EXPECT_EQ(untimed, sum(plan.not_measured));
  EXPECT_EQ(cut->plans().at(0)->untimed_steps(), 0);
  // The next build, which has the time, goes on where this one ended.
  const int before = measured;
  time_limit = 120;
  EXPECT_TRUE(build(network(false))->plans().at(0)->not_measured.empty());
  EXPECT_EQ(before + measured, all);
}

TEST_F(Settle, WithoutAnyTimeThePlanIsThereAndRight) {
  time_limit = 0;
  const auto engine = build(network(true));
  EXPECT_EQ(measured, 0);
  EXPECT_FALSE(engine->plans().at(0)->not_measured.empty());
  const Tensor x = ones({1, 8, 8, 8});
  const Tensor want = run_reference(network(true), {x}).at(0), got = Session(engine).run({x}).at(0);
  for (int64_t i = 0; i < want.count(); ++i) ASSERT_NEAR(got.data<float>()[i], want.data<float>()[i], 1e-3) << i;
}

// Nobody knows what a candidate needs that was not looked at.
TEST_F(Settle, UnderALimitOfWorkspaceOneCandidateOfEachProblemIsLookedAtAllTheSame) {
  time_limit = 0;
  workspace = int64_t(1) << 30;
  const auto engine = build(network(false));
  EXPECT_EQ(measured, 1);
  for (const PlanStep& step : engine->plans().at(0)->segments.at(0).steps) EXPECT_LE(step.workspace, workspace);
}

TEST(Contradiction, IsMoreThanFifteenPercentBetweenTheWholeAndItsSteps) {
  Plan plan;
  plan.segments.emplace_back();
  plan.segments[0].steps.resize(2);
  plan.segments[0].steps[0].ms = 4;
  plan.segments[0].steps[1].ms = 6;
  plan.segments[0].steps[0].tactic = plan.segments[0].steps[1].tactic = "a";
  EXPECT_FALSE(contradicts(plan, false)) << "not measured";
  plan.whole.ms = 11.4;
  EXPECT_FALSE(contradicts(plan, false));
  plan.whole.ms = 11.6;
  EXPECT_TRUE(contradicts(plan, false));
  EXPECT_TRUE(contradicts(plan, true));
  plan.whole.ms = 8.4;
  EXPECT_TRUE(contradicts(plan, false));
  EXPECT_FALSE(contradicts(plan, true)) << "kernels of a capture overlap";
  const PlanTimes times{plan.whole, {{4.1, 3.0}}};
  const auto steps = contradicting_steps(plan, times);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0], &plan.segments[0].steps[1]);
  plan.segments[0].steps[1].ms = -1;
  EXPECT_EQ(plan.untimed_steps(), 1);
  EXPECT_EQ(plan.steps_ms(), 4);
}

}  // namespace
}  // namespace temper
