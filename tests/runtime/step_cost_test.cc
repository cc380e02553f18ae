// SPDX-License-Identifier: Apache-2.0
// What a step costs beside the work of its kernel. The quickest of many runs counts: others may use the cores
// meanwhile.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "../plan/helpers.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

// Microseconds of the quickest run; no more are tried once one is as quick as that.
template <class Body>
double quickest_us(double enough, Body&& body) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  const auto end = Clock::now() + std::chrono::seconds(3);
  for (auto start = Clock::now(); best > enough && start < end; start = Clock::now()) {
    body();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

TEST(StepCost, AloneAStepTakesAtMostThreeTenthsOfAMicrosecondWithASmallKernel) {
  constexpr int kSteps = 200;
  std::string text = "graph \"chain\"\ninput %v0: f32[4]\n";
  for (int i = 1; i <= kSteps; ++i)
    text += concat("%v", i, ": f32[4] = pointwise(%v", i - 1, ") program=\"(1) 1=relu.f32(0)\"\n");
  text += concat("output \"y\" = %v", kSteps, "\n");
  BuildOptions options;
  options.measure = false;
  options.threads = 2;
  options.passes.all_disabled = true;  // else they were one step
  Session session(build_engine(parse_graph(text), info_of("cpu"), options));
  const Tensor x = noise({4}, 1);
  Tensor y(DType::f32, {4});
  session.prepare({x.dims()});
  const void* const in = x.raw().data();
  void* const out = y.raw_mutable();
  ASSERT_EQ(session.current_plan().segments[0].steps.size(), size_t(kSteps));
  const double us = quickest_us(0.3 * kSteps, [&] { session.run_prepared({&in, 1}, {&out, 1}); }) / kSteps;
  std::printf("a step alone: %.3f us\n", us);
  EXPECT_LE(us, 0.3);
}

// A barrier keeps one thread from doing the work of both. It is a second join: two microseconds for the two.
TEST(StepCost, ThreadsJoinWithinAMicrosecond) {
  if (max_threads() < 2) GTEST_SKIP() << "one core";
  constexpr int kRegions = 20;
  const double us = quickest_us(2.0 * kRegions,
                                [] {
                                  for (int i = 0; i < kRegions; ++i)
                                    run_parts(2, Parts::together, [](void*, int) { wait_for_members(); }, nullptr);
                                }) /
                    kRegions;
  std::printf("two threads: %.3f us for two joins\n", us);
  if (us > 50) GTEST_SKIP() << "other processes leave no second core: it came with the scheduler's time slices";
  EXPECT_LE(us, 2);
}

}  // namespace
}  // namespace temper
