// SPDX-License-Identifier: Apache-2.0
// Times are scripted: nothing here depends on how fast anything is.
#include "optimize/step_threads.h"

#include <functional>

#include "../plan/helpers.h"
#include "graph/ops/conv.h"
#include "measure/clock.h"
#include "optimize/segments.h"
#include "plan/file.h"
#include "plan/nearest.h"

namespace temper {
namespace {

// A step's milliseconds, by its node and threads.
using Script = std::function<double(const PlanStep&)>;

PlanTimer scripted(const Script& script, int* calls = nullptr) {
  return [script, calls](const std::vector<const Plan*>& plans) {
    if (calls) ++*calls;
    std::vector<TimedPlan> times;
    for (const Plan* plan : plans) {
      TimedPlan& timed = times.emplace_back();
      for (const Segment& segment : plan->segments)
        for (auto& row = timed.step_ms.emplace_back(); const PlanStep& step : segment.steps) {
          row.push_back(step.is_reorder() ? 0 : script(step));
          timed.ms += row.back();
        }
    }
    return times;
  };
}

struct Chosen {
  Graph graph;
  Device device = open_device("cpu");
  PlanOptions options;
  ThreadedPlan threaded;

  Chosen(int threads, const PlanTimer& time, Graph given = small_graph("2")) : graph(std::move(given)) {
    options.threads = threads;
    const Backend& backend = find_backend("cpu");
    threaded =
        choose_step_threads(graph, backend, device, options, build_plan(graph, backend, device, options), time, {});
  }
  std::map<std::string, int> threads() const {
    std::map<std::string, int> list;
    for (const Segment& segment : threaded.plan.segments)
      for (const PlanStep& step : segment.steps)
        if (!step.is_reorder()) list[step.node] = step.problem.threads;
    return list;
  }
};

TEST(StepThreads, AStepRunsOnOneThreadWhereItsTimesInPlansSaySo) {
  const Chosen chosen(2, scripted([](const PlanStep& step) {
                        const bool one = step.problem.threads == 1;
                        if (step.node == "c1") return one ? 0.080 : 0.045;
                        return one ? 0.004 : 0.010;  // opening and joining is what it takes
                      }));
  EXPECT_EQ(chosen.threads(), (std::map<std::string, int>{{"c1", 2}, {"p1", 1}, {"c2", 1}, {"m", 1}, {"y", 1}}));
  EXPECT_EQ(chosen.threaded.plan.threads, 2);
}

TEST(StepThreads, StepsThatAreFasterTogetherStayOnAllThreads) {
  const Chosen chosen(2, scripted([](const PlanStep& step) { return step.problem.threads == 1 ? 0.02 : 0.012; }));
  for (const auto& [node, threads] : chosen.threads()) EXPECT_EQ(threads, 2) << node;
  EXPECT_FALSE(chosen.threaded.threads_of);
}

TEST(StepThreads, OfPlansAsFastAsEachOtherTheOneThatNeedsFewerCoresIsTaken) {
  const Chosen chosen(2, scripted([](const PlanStep& step) { return step.problem.threads == 1 ? 0.02001 : 0.02; }));
  for (const auto& [node, threads] : chosen.threads()) EXPECT_EQ(threads, 1) << node;
}

TEST(StepThreads, AStepThatIsSlowAmongOthersOfOneThreadGoesBackToOne) {
  // On its own it gains; with a neighbour on one thread it has to wake the worker.
  PlanTimer timer = [](const std::vector<const Plan*>& plans) {
    std::vector<TimedPlan> times;
    for (const Plan* plan : plans) {
      TimedPlan& timed = times.emplace_back();
      int before = 0;
      for (const Segment& segment : plan->segments)
        for (auto& row = timed.step_ms.emplace_back(); const PlanStep& step : segment.steps) {
          double ms = step.problem.threads == 1 ? 0.010 : step.node == "c2" ? 0.006 : 0.020;
          if (step.problem.threads > 1 && before == 1) ms += 0.008;
          if (!step.is_reorder()) before = step.problem.threads;
          row.push_back(step.is_reorder() ? 0 : ms);
          timed.ms += row.back();
        }
    }
    return times;
  };
  for (const auto& [node, threads] : Chosen(2, timer).threads()) EXPECT_EQ(threads, 1) << node;
}

TEST(StepThreads, OnManyCoresAFewNumbersAreTried) {
  const Chosen chosen(
      16, scripted([](const PlanStep& step) {
        return step.node == "c2" && step.problem.threads == 4 ? 0.005 : step.problem.threads == 1 ? 0.01 : 0.02;
      }));
  EXPECT_EQ(chosen.threads(), (std::map<std::string, int>{{"c1", 1}, {"p1", 1}, {"c2", 4}, {"m", 1}, {"y", 1}}));
}

TEST(StepThreads, LongStepsAndSingleThreadsAreNotMeasuredTwice) {
  int calls = 0;
  Chosen(1, scripted([](const PlanStep&) { return 0.01; }, &calls));
  EXPECT_EQ(calls, 0);
  Chosen(2, scripted([](const PlanStep&) { return 5.0; }, &calls));
  EXPECT_EQ(calls, 1);
}

// Rows of numbers have one layout, and one kernel takes them, which works on one thread where they are few.
TEST(StepThreads, WhatIsTheSameOnOneThreadIsNotMeasured) {
  const auto graph_of = [](const std::string& width) {
    return parse_graph(concat("graph \"g\"\ninput %x: f32[1,", width, "]\n%y: f32[1,", width,
                              "] = pointwise(%x) program=\"(1) 1=sin.f32(0)\"\noutput \"y\" = %y\n"));
  };
  int calls = 0;
  const auto timer = scripted([](const PlanStep& step) { return step.problem.threads == 1 ? 0.005 : 0.01; }, &calls);
  EXPECT_EQ(Chosen(2, timer, graph_of("4")).threads(), (std::map<std::string, int>{{"y", 2}}));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(Chosen(2, timer, graph_of("65536")).threads(), (std::map<std::string, int>{{"y", 1}}));
  EXPECT_GT(calls, 0);
}

TEST(StepThreads, StayInTheFileAndServeOtherShapes) {
  auto engine = std::make_shared<Engine>(info_of("cpu"), small_graph("n"), 2);
  PlanOptions options;
  options.threads = 2;
  options.threads_of = [](const Problem& problem) { return problem.op.is<ops::Conv>() ? problem.threads : 1; };
  const auto plan_of = [&](int64_t batch) {
    const Graph concrete = specialize(engine->graph(), bind_shapes(engine->graph(), {{batch, 3, 8, 8}}));
    return build_plan(concrete, find_backend("cpu"), engine->device(), options);
  };
  const auto check = [](const Plan& plan, int few) {
    EXPECT_EQ(plan.threads, 2);
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps)
        EXPECT_TRUE(step.is_reorder() || step.problem.threads == (step.problem.op.is<ops::Conv>() ? 2 : few))
            << step.node;
  };
  engine = with_plan(*engine, plan_of(4));
  check(*engine->plans().at(0), 1);
  const Tensor file = file_bytes(*engine);
  const auto loaded = std::make_shared<const Engine>(read_plan(file.raw(), nullptr));
  check(*loaded->plans().at(0), 1);
  const Tensor x = noise({4, 3, 8, 8}, 9);
  expect_close(Session(loaded).run({x}), run_reference(engine->graph(), {x}));
  check(*loaded->plan_for({{2, 3, 8, 8}}), 1);
  check(*loaded->plan_for({{8, 3, 8, 8}}), 1);
  check(*loaded->plan_for({{64, 3, 8, 8}}), 2);  // more work is worth more threads
}

}  // namespace
}  // namespace temper
