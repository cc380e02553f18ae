// SPDX-License-Identifier: Apache-2.0
#include "measure/load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "measure/statistics.h"

namespace temper {
namespace {

std::function<void()> sleeper(double ms) {
  return [ms] { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms)); };
}

TEST(Load, StreamsRunSideBySide) {
  TimerOptions options;
  options.warmup = 1;
  options.iterations = 60;
  // Nobody returns before all three have been inside at once; a minute means that they never will be.
  std::atomic<int> now{0}, most{0};
  const auto start = std::chrono::steady_clock::now();
  const auto body = [&] {
    const int running = ++now;
    for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {}
    do sleeper(4)();
    while (most < 3 && std::chrono::steady_clock::now() - start < std::chrono::minutes(1));
    --now;
  };
  const Samples samples = measure_streams({body, body, body}, options);
  EXPECT_EQ(samples.ms.size(), 60u);
  EXPECT_EQ(samples.stop, Stop::fixed_count);
  EXPECT_EQ(most, 3);
  EXPECT_GE(median(samples.ms), 4);
}

TEST(Load, StreamsStopWhenTheMedianIsKnownOrTimeIsUp) {
  TimerOptions options;
  options.max_seconds = 60;
  options.min_seconds = 0.05;
  options.relative_error = 0.5;
  EXPECT_EQ(measure_streams({sleeper(1), sleeper(1)}, options).stop, Stop::error_reached);
  options.max_seconds = 0.3;
  options.relative_error = 0;
  EXPECT_EQ(measure_streams({sleeper(1), sleeper(1)}, options).stop, Stop::time_up);
}

TEST(Load, WhatAStreamThrowsEndsTheOthersAndReachesTheCaller) {
  std::atomic<int> calls{0};
  const auto fails = [&] {
    if (++calls > 5) fail(ErrorKind::machine, "the machine failed");
    sleeper(1)();
  };
  TimerOptions options;
  options.max_seconds = 60;
  options.relative_error = 0;
  EXPECT_THROW(measure_streams({sleeper(1), fails}, options), Error);
  calls = 5;
  EXPECT_THROW(measure_streams({sleeper(1), fails}, options), Error);  // in the warm-up
  calls = 0;
  EXPECT_THROW(measure_open({fails}, {.rate_per_s = 200, .seconds = 60, .warmup = 1}), Error);
  EXPECT_THROW(measure_streams({}, options), Error);
}

TEST(Load, LatencyOfARequestCountsFromWhenItWasMeantToBeSent) {
  // The fourth run stalls: the requests that were due meanwhile waited, and their latency says so.
  int calls = 0;
  const auto stalls = [&] { sleeper(++calls == 8 ? 200 : 0.1)(); };
  const Samples samples = measure_open({stalls}, {.rate_per_s = 400, .seconds = 1, .warmup = 2});
  int late = 0;
  for (double ms : samples.ms) late += ms > 50;
  EXPECT_GT(late, 20) << "some 80 requests were due while one stalled";
  EXPECT_EQ(samples.requests_per_s, 400);
  EXPECT_NEAR(double(samples.ms.size()) + double(samples.unserved), 400, 100);  // Poisson: its standard deviation is 20
}

TEST(Load, ArrivalsAreThoseOfAPoissonProcessAndOfTheSeed) {
  const auto requests = [](uint64_t seed) {
    const Samples samples = measure_open({[] {}}, {.rate_per_s = 500, .seconds = 0.6, .warmup = 0, .seed = seed});
    EXPECT_DOUBLE_EQ(*samples.arrivals_per_s, double(samples.ms.size() + size_t(samples.unserved)) / 0.6);
    return *samples.arrivals_per_s * 0.6;
  };
  EXPECT_EQ(requests(1), requests(1));
  EXPECT_NE(requests(1), requests(2));
  EXPECT_NEAR(requests(1), 300, 90);
}

TEST(Load, MoreRequestsThanCanBeServedAreCountedNotHidden) {
  const Samples samples = measure_open({sleeper(20)}, {.rate_per_s = 500, .seconds = 0.3, .warmup = 0});
  EXPECT_GT(samples.unserved, 50);
  EXPECT_LT(*samples.runs_per_s, 60);
  EXPECT_GT(samples.ms.back(), 200);  // the queue grew
}

TEST(Load, RatesThatMeanNothingAreRefused) {
  EXPECT_THROW(measure_open({sleeper(1)}, {.rate_per_s = 0}), Error);
  EXPECT_THROW(measure_open({sleeper(1)}, {.rate_per_s = 1e12}), Error);
}

}  // namespace
}  // namespace temper
