// SPDX-License-Identifier: Apache-2.0
// How long a plan takes from its file to its first answer, printed; off unless asked for
// (--gtest_also_run_disabled_tests), with the plan named by TEMPER_TEST_PLAN. One in a process: what is open stays
// open.
#include <chrono>
#include <cstdlib>

#include "backends/backend.h"
#include "run_cuda_tactic.h"
#include "runtime/engine.h"

namespace temper {
namespace {

void time_load(bool context_is_there) {
  const char* path = std::getenv("TEMPER_TEST_PLAN");
  if (!path) GTEST_SKIP() << "TEMPER_TEST_PLAN names no plan";
  std::shared_ptr<const cuda::Machine> machine;
  std::string why;
  if (context_is_there && !testing::gpu(why)) GTEST_SKIP() << "no GPU: " << why;
  if (context_is_there) machine = cuda::Machine::open(0, testing::cuda_search());
  auto last = std::chrono::steady_clock::now();
  const auto first = last;
  auto say = [&](const char* what) {
    const auto now = std::chrono::steady_clock::now();
    std::printf("  %-32s %7.1f ms\n", what, std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
  };
  PlanFile file = read_plan_file(path, {.settings = {testing::cuda_search().folders}});
  say("reading the plan");
  const auto engine = std::make_shared<const Engine>(std::move(file));
  Session session(engine);
  say("engine and session");
  std::vector<Tensor> inputs;
  std::vector<Dims> shapes;
  for (const PortInfo& port : engine->plans().at(0)->inputs) {
    inputs.emplace_back(port.type.dtype, port.type.dims());
    shapes.push_back(port.type.dims());
  }
  session.prepare(shapes);
  say("loading kernels and weights");
  session.run(inputs);
  say("first answer");
  last = first;
  say(context_is_there ? "all, the context being there" : "all, with the driver and the context");
  session.run(inputs);
}

// Each kernel that takes long, in the plan's order, one after the other.
TEST(CudaLoadTimes, DISABLED_OfEachKernel) {
  TEMPER_NEEDS_MACHINE(machine);
  const char* path = std::getenv("TEMPER_TEST_PLAN");
  if (!path) GTEST_SKIP() << "TEMPER_TEST_PLAN names no plan";
  const Engine engine(read_plan_file(path, {.settings = {testing::cuda_search().folders}}));
  const auto plan = engine.plans().at(0);
  auto now = [] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  std::map<std::string, std::pair<int, double>> sums;
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const Segment& segment : plan->segments)
    for (const PlanStep& step : segment.steps) {
      if (step.is_reorder()) continue;
      const double start = now();
      const Tactic* tactic = find_tactic(step.tactic);
      const bool yes = tactic->supports(step.problem, engine.device()).yes();
      const double asked = now();
      kernels.push_back(tactic->load(step.problem, step.config, plan->packed_of(step), engine.device()));
      const double end = now();
      EXPECT_TRUE(yes);
      auto& [count, ms] = sums[step.tactic];
      ++count, ms += end - start;
      if (end - start > 2)
        std::printf("  %-28s %7.1f ms (supports %.1f) %s\n", step.node.c_str(), end - start, asked - start,
                    step.config.text.c_str());
    }
  for (const auto& [tactic, sum] : sums) std::printf("  %3d x %-24s %7.1f ms\n", sum.first, tactic.c_str(), sum.second);
}

TEST(CudaLoadTimes, DISABLED_WithTheContextThere) { time_load(true); }
TEST(CudaLoadTimes, DISABLED_OfAFreshProcess) { time_load(false); }

}  // namespace
}  // namespace temper
