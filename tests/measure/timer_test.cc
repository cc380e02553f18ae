// SPDX-License-Identifier: Apache-2.0
#include "measure/timer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "measure/statistics.h"

namespace temper {
namespace {

// Time passes only inside `work`; each reading may cost something too.
struct TickingClock final : Clock {
  double now = 0, reading_cost = 0;
  double now_ms() override { return now += reading_cost; }
};

struct Body {
  TickingClock& clock;
  std::function<double(int)> cost;  // of call number i
  int calls = 0;
  std::function<void()> function() {
    return [this] { clock.now += cost(calls++); };
  }
};

TEST(Timer, ColdRunIsApartAndWarmupEndsWhenRunsStopGettingFaster) {
  TickingClock clock;
  Body body{clock, [](int i) { return i == 0 ? 50.0 : i < 10 ? 10.0 - 0.5 * i : 5.0; }};
  const Samples samples = measure(body.function(), {.max_seconds = 10}, clock);
  EXPECT_DOUBLE_EQ(samples.first_run_ms, 50);
  EXPECT_TRUE(samples.warmup_stable);
  EXPECT_GE(samples.warmup_runs, 9);
  for (double ms : samples.ms) EXPECT_DOUBLE_EQ(ms, 5);
  EXPECT_EQ(samples.stop, Stop::error_reached);
  EXPECT_DOUBLE_EQ(samples.relative_error, 0);
  EXPECT_GE(double(samples.ms.size()) * 5, 200);  // min_seconds
  EXPECT_LT(samples.ms.size(), 100u);
  EXPECT_EQ(int(samples.ms.size()) + samples.warmup_runs + 1, body.calls);
}

TEST(Timer, NoisyBodyIsSampledUntilTheIntervalIsNarrowEnough) {
  TickingClock clock;
  Body body{clock, [](int i) { return 10 + double(i * 7919 % 101) / 50; }};  // 10 to 12
  const Samples coarse = measure(body.function(), {.max_seconds = 1000, .relative_error = 0.02}, clock);
  const Samples fine = measure(body.function(), {.max_seconds = 1000, .relative_error = 0.002}, clock);
  EXPECT_EQ(coarse.stop, Stop::error_reached);
  EXPECT_EQ(fine.stop, Stop::error_reached);
  EXPECT_LE(coarse.relative_error, 0.02);
  EXPECT_LE(fine.relative_error, 0.002);
  EXPECT_GT(fine.ms.size(), 4 * coarse.ms.size());
}

TEST(Timer, TimeUpEndsSamplingButNotBelowTheLeastNumber) {
  TickingClock clock;
  Body body{clock, [](int i) { return i % 2 ? 10.0 : 20.0; }};
  const Samples samples = measure(body.function(), {.max_seconds = 1}, clock);
  EXPECT_EQ(samples.stop, Stop::time_up);
  EXPECT_NEAR(double(samples.ms.size()), 1000.0 / 15, 2);
  Body slow{clock, [](int) { return 5000.0; }};
  const Samples few = measure(slow.function(), {.max_seconds = 1}, clock);
  EXPECT_EQ(few.ms.size(), 6u);
  EXPECT_FALSE(few.warmup_stable);
}

TEST(Timer, FixedCountsAreExactAndRecorded) {
  TickingClock clock;
  Body body{clock, [](int) { return 0.001; }};
  const Samples samples = measure(body.function(), {.warmup = 3, .iterations = 17}, clock);
  EXPECT_EQ(samples.warmup_runs, 3);
  EXPECT_EQ(samples.ms.size(), 17u);
  EXPECT_EQ(samples.calls_per_sample, 1);
  EXPECT_EQ(body.calls, 1 + 3 + 17);
  EXPECT_TRUE(samples.fixed_counts);
  EXPECT_EQ(samples.stop, Stop::fixed_count);
  EXPECT_THROW(measure(body.function(), {.iterations = 0}, clock), Error);
}

TEST(Timer, ShortCallsAreTimedInGroupsAndTheOverheadIsStated) {
  TickingClock clock;
  clock.reading_cost = 0.00005;
  Body body{clock, [](int) { return 0.002; }};
  const Samples samples = measure(body.function(), {.max_seconds = 0.5}, clock);
  EXPECT_GE(samples.calls_per_sample, 9);
  EXPECT_LE(samples.calls_per_sample, 11);
  EXPECT_NEAR(samples.timer_overhead_ms, 0.00005, 1e-9);
  EXPECT_NEAR(samples.ms.back(), 0.002, 0.00002);
}

TEST(Timer, BodyThatThrowsEndsTheMeasurement) {
  EXPECT_THROW(measure([] { fail(ErrorKind::machine, "broken"); }), Error);
}

TEST(QuickTime, ReturnsTheLeastTimeAndStopsWhenNothingIsGained) {
  TickingClock clock;
  Body body{clock, [](int i) { return i == 0 ? 9.0 : i == 2 ? 2.0 : 3.0; }};
  EXPECT_DOUBLE_EQ(quick_time_ms(body.function(), {}, clock), 2);
  EXPECT_EQ(body.calls, 7);  // four after the best
}

TEST(QuickTime, GivesUpEarlyOnACandidateThatIsMuchSlower) {
  TickingClock clock;
  Body slower{clock, [](int) { return 3.0; }};
  EXPECT_DOUBLE_EQ(quick_time_ms(slower.function(), {.best_ms = 1}, clock), 3);
  EXPECT_EQ(slower.calls, 2);
  Body hopeless{clock, [](int) { return 30.0; }};
  quick_time_ms(hopeless.function(), {.best_ms = 1}, clock);
  EXPECT_EQ(hopeless.calls, 1);
  Body cold_start{clock, [](int i) { return i == 0 ? 8.0 : 0.9; }};
  EXPECT_NEAR(quick_time_ms(cold_start.function(), {.best_ms = 1}, clock), 0.9, 1e-9);
}

TEST(QuickTime, KeepsToItsBudget) {
  TickingClock clock;
  Body body{clock, [](int) { return 60.0; }};
  quick_time_ms(body.function(), {.max_ms = 100}, clock);
  EXPECT_EQ(body.calls, 2);
}

TEST(Timer, HostClockMeasuresARealSpin) {
  auto spin = [] {
    const double end = host_clock().now_ms() + 1;
    while (host_clock().now_ms() < end) {}
  };
  const Samples samples = measure(spin, {.max_seconds = 0.1, .min_seconds = 0.01});
  for (double ms : samples.ms) EXPECT_GE(ms, 1);
}

TEST(Timer, CostsLessThanATwoThousandthOfAMillisecond) {
  auto spin = [] {
    const double end = host_clock().now_ms() + 1;
    while (host_clock().now_ms() < end) {}
  };
  // The least of many samples: what interrupts the others is not the timer.
  const Samples samples = measure(spin, {.max_seconds = 0.5, .relative_error = 1e-9});
  EXPECT_LT(*std::min_element(samples.ms.begin(), samples.ms.end()), 1.002);
  EXPECT_LT(samples.timer_overhead_ms, 0.002);
}

}  // namespace
}  // namespace temper
