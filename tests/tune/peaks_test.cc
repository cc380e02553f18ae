// SPDX-License-Identifier: Apache-2.0
#include "tune/peaks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "bench/profile.h"
#include "fake_machine.h"
#include "graph/ops/transpose.h"

namespace temper {
namespace {

class PeaksTest : public ::testing::Test {
 protected:
  const Device device = open_device("cpu");
  FakeMachine machine;
  TimingCache cache;
  double rate = 1e11;
  int measured = 0;
  PeakMeter meter() {
    return {[this](const Device&, int) {
              ++measured;
              machine.elapsed_ms([] {}, 1);
              Peaks peaks;
              peaks.bytes_per_s = 1e10;
              peaks.f32_per_s = rate;
              return peaks;
            },
            &machine};
  }
};

TEST_F(PeaksTest, ThoseTakenWhileOthersWorkedAreMeasuredAgainWhenTheMachineIsQuiet) {
  machine.others = 1.5;
  EXPECT_DOUBLE_EQ(known_peaks(device, 2, cache, meter()).f32_per_s, 1e11);
  rate = 2e11;
  EXPECT_DOUBLE_EQ(known_peaks(device, 2, cache, meter()).f32_per_s, 1e11);
  EXPECT_EQ(measured, 1);
  machine.others = 0;
  EXPECT_DOUBLE_EQ(known_peaks(device, 2, cache, meter()).f32_per_s, 2e11);
  EXPECT_DOUBLE_EQ(known_peaks(device, 2, cache, meter()).f32_per_s, 2e11);
  EXPECT_EQ(measured, 2);
}

TEST_F(PeaksTest, MeasuredAgainTheHigherOneIsTheLimit) {
  Peaks before = known_peaks(device, 2, cache, meter());
  rate = 3e11;
  EXPECT_DOUBLE_EQ(peaks_again(before, device, 2, cache, meter()).f32_per_s, 3e11);
  rate = 1e11;
  EXPECT_DOUBLE_EQ(peaks_again(known_peaks(device, 2, cache, meter()), device, 2, cache, meter()).f32_per_s, 3e11);
}

// Which loop measures a limit; how fast it was is nothing that a busy machine could promise.
TEST_F(PeaksTest, WhereTheCpuHasTilesTheirsIsTheLimitOf16And8Bits) {
  if (!device.amx) GTEST_SKIP() << "this CPU has no AMX";
  const auto instructions_of = [&](double Peaks::* kind) {
    std::string names;
    for (const PeakLoop& loop : peak_loops(device))
      if (loop.rate == kind) names += loop.instructions;
    return names;
  };
  EXPECT_EQ(instructions_of(&Peaks::f32_per_s), "avx512");
  EXPECT_EQ(instructions_of(&Peaks::bf16_per_s), "amx");
  EXPECT_EQ(instructions_of(&Peaks::i8_per_s), "amx");
}

TEST_F(PeaksTest, EachKindOfArithmeticHasOneLoopWhichThisMachineRuns) {
  std::vector<double Peaks::*> seen;
  for (const PeakLoop& loop : peak_loops(device)) {
    EXPECT_EQ(std::ranges::count(seen, loop.rate), 0) << loop.instructions;
    seen.push_back(loop.rate);
    EXPECT_GT(loop.products, 0);
    loop.run(3);
  }
  EXPECT_EQ(std::ranges::count(seen, &Peaks::f32_per_s), 1);
}

// A convolution of 1e9 operations in 5 ms is 200 Gop/s.
TEST_F(PeaksTest, AStepAboveALimitProvesItWrongUnlessWinogradOrACacheExplainsIt) {
  auto plan = std::make_shared<Plan>();
  plan->segments.emplace_back();
  PlanStep step;
  step.tactic = "cpu.conv.onednn";
  step.problem.op = ops::Transpose{};
  plan->segments[0].steps.push_back(step);
  Profile profile;
  profile.plan = plan;
  StepProfile row;
  row.plan = plan.get();
  row.step = &plan->segments[0].steps[0];
  row.ms = 5;
  row.operations = 1'000'000'000;
  row.bytes = 100'000'000;
  profile.steps.push_back(row);
  Peaks peaks;
  peaks.f32_per_s = 1e11;
  hold_against(profile, peaks);
  EXPECT_DOUBLE_EQ(profile.steps[0].of_arithmetic, 2);
  EXPECT_EQ(above_limits(profile, 0).size(), 1u);
  plan->segments[0].steps[0].config.text = "winograd relu";
  EXPECT_TRUE(above_limits(profile, 0).empty());
  plan->segments[0].steps[0].config.text = "direct relu";
  peaks.f32_per_s = 1.9e11;
  hold_against(profile, peaks);
  EXPECT_TRUE(above_limits(profile, 0).empty()) << "5 % above is within what a measurement is worth";
  peaks.bytes_per_s = 1e10;  // 100 MB in 5 ms are 20 GB/s
  hold_against(profile, peaks);
  EXPECT_EQ(above_limits(profile, 0).size(), 1u);
  EXPECT_TRUE(above_limits(profile, 64'000'000).empty()) << "most of it may have come from the cache";
}

}  // namespace
}  // namespace temper
