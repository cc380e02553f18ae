// SPDX-License-Identifier: Apache-2.0
#include "measure/paired.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace temper {
namespace {

// Time passes only while a body "runs".
class FakeClock final : public Clock {
 public:
  double now_ms() override { return now; }
  double now = 0;
};

struct Machine {
  FakeClock clock;
  std::mt19937 random{7};
  double noise = 0.02;
  double drift = 0;  // share by which the machine gets slower with each ms
  std::string calls;

  std::function<void()> body(char name, double ms) {
    return [this, name, ms] {
      calls += name;
      const double jitter = 1 + noise * double(random() % 1000) / 1000;
      clock.now += ms * jitter * (1 + drift * clock.now);
    };
  }
  Paired compare(double a, double b, PairedOptions options = {}) {
    return measure_paired(body('a', a), body('b', b), options, clock);
  }
};

TEST(MeasurePaired, NamesTheFasterOne) {
  Machine machine;
  const Paired faster = machine.compare(5, 4), slower = machine.compare(4, 5), same = machine.compare(4, 4);
  EXPECT_EQ(faster.verdict, Verdict::faster);
  EXPECT_NEAR(faster.ratio, 1.25, 0.01);
  EXPECT_LT(faster.interval.low, faster.ratio);
  EXPECT_GT(faster.interval.high, faster.ratio);
  EXPECT_EQ(slower.verdict, Verdict::slower);
  EXPECT_NEAR(slower.ratio, 0.8, 0.01);
  EXPECT_EQ(same.verdict, Verdict::same);
}

TEST(MeasurePaired, ADriftOfTheMachineIsNoDifference) {
  Machine machine;
  machine.drift = 1e-4;  // ten times as slow after 90 seconds
  const Paired paired = machine.compare(10, 10);
  EXPECT_EQ(paired.verdict, Verdict::same) << paired.interval.low << " to " << paired.interval.high;
}

TEST(MeasurePaired, NoiseBeyondTheDifferenceIsUnsure) {
  Machine machine;
  machine.noise = 1;
  machine.random.seed(1);
  PairedOptions options;
  options.turn_ms = 1;  // a call a turn
  const Paired paired = machine.compare(20, 20.3, options);
  EXPECT_EQ(paired.verdict, Verdict::unsure) << paired.interval.low << " to " << paired.interval.high;
}

TEST(MeasurePaired, TurnsGoAbba) {
  Machine machine;
  PairedOptions options;
  options.turn_ms = 1;
  options.min_rounds = options.max_rounds = 2;
  machine.compare(3, 3, options);
  const std::string turns = machine.calls.substr(machine.calls.size() - 16);
  EXPECT_EQ(turns, "aabbbbaaaabbbbaa");  // each turn: one call untimed, one timed
}

TEST(MeasurePaired, ShortCallsAreTimedTogether) {
  Machine machine;
  const Paired paired = machine.compare(0.0004, 0.0008);
  EXPECT_NEAR(paired.ratio, 0.5, 0.01);
  EXPECT_NEAR(paired.a_ms.at(0), 0.000404, 1e-5);
}

TEST(MeasurePaired, ARatioThatDriftsGetsNoVerdict) {
  Machine machine;
  int calls = 0;
  const auto slows = [&, body = machine.body('b', 1)] {
    body();
    machine.clock.now += 0.0002 * ++calls;  // only this one gets slower
  };
  const Paired paired = measure_paired(machine.body('a', 1), slows, {}, machine.clock);
  EXPECT_EQ(paired.verdict, Verdict::unsure);
  EXPECT_NE(paired.why.find("the ratio changed by -"), std::string::npos) << paired.why;
}

TEST(MeasurePaired, UnsureSaysHowManyRoundsWouldDecideAndTheyDo) {
  Machine machine;
  machine.noise = 1;
  PairedOptions options;
  options.turn_ms = 1;
  options.max_seconds = 20;
  const Paired few = machine.compare(20, 20.6, options);
  ASSERT_EQ(few.verdict, Verdict::unsure) << few.ratio;
  ASSERT_GT(few.rounds_needed, int(few.ratios.size()));
  ASSERT_LT(few.rounds_needed, 100'000) << few.interval.low << " to " << few.interval.high;
  options.max_seconds = 1e6;
  options.min_rounds = 4 * few.rounds_needed;  // the estimate rests on a ratio that is not well known yet
  options.max_rounds = options.min_rounds;
  const Paired many = machine.compare(20, 20.6, options);
  EXPECT_EQ(many.verdict, Verdict::slower) << many.ratio << " " << many.interval.low << " to " << many.interval.high;
}

TEST(MeasurePaired, SeveralAreTimedInOneRoundEachBesideTheFirst) {
  Machine machine;
  PairedOptions options;
  options.turn_ms = 1;
  options.min_rounds = options.max_rounds = 12;
  const Turns turns =
      measure_turns({machine.body('a', 6), machine.body('b', 3), machine.body('c', 12)}, options, machine.clock);
  const auto& results = turns.beside_first;
  ASSERT_EQ(results.size(), 2u);
  ASSERT_EQ(turns.ms.size(), 3u);
  EXPECT_EQ(turns.ms[1].size(), 24u);
  EXPECT_NEAR(results[0].ratio, 2, 0.05);
  EXPECT_NEAR(results[1].ratio, 0.5, 0.02);
  EXPECT_EQ(results[0].a_ms, results[1].a_ms);
  EXPECT_EQ(machine.calls.substr(machine.calls.size() - 12), "aabbccccbbaa");
}

TEST(Verdict, ComesFromTheWholeInterval) {
  EXPECT_EQ(verdict_of({1.001, 1.009}, 0.01), Verdict::same);
  EXPECT_EQ(verdict_of({1.001, 1.02}, 0.01), Verdict::faster);
  EXPECT_EQ(verdict_of({0.9, 0.999}, 0.01), Verdict::slower);
  EXPECT_EQ(verdict_of({0.9, 1.1}, 0.01), Verdict::unsure);
}

}  // namespace
}  // namespace temper
