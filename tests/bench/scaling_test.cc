// SPDX-License-Identifier: Apache-2.0
// Several devices beside each of them alone, on the CPU; on GPUs: tests/backends/cuda/pool_emulated_test.cc.
#include "bench/scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../plan/helpers.h"
#include "bench/bench_engine.h"

namespace temper {
namespace {

const std::vector<Dims> kShapes{{2, 4}};

TEST(Scaling, EachDeviceHasARateAloneAndTogetherInEveryRound) {
  const auto engine = tiny_engine("cpu");
  const Engines engines = engines_on(engine, {"cpu", "cpu", "cpu"});
  EXPECT_FALSE(can_stay_on(engines, kShapes));
  const Scaling scaling = measure_scaling(engines, kShapes, {.seconds = 0.05, .rounds = 7, .transfers = true});
  ASSERT_EQ(scaling.devices.size(), 3u);
  for (const auto& device : scaling.devices) {
    EXPECT_EQ(device.device, "cpu");
    ASSERT_EQ(device.alone.size(), 7u);
    ASSERT_EQ(device.together.size(), 7u);
    for (size_t r = 0; r < 7; ++r) {
      EXPECT_GT(device.alone[r], 0);
      EXPECT_GT(device.together[r], 0);
    }
  }
  EXPECT_EQ(scaling.items, 2);
  EXPECT_EQ(scaling.streams, 1) << "streams are of GPUs";
  ASSERT_EQ(scaling.notes.size(), 1u);
  EXPECT_NE(scaling.notes[0].find("3 of the devices share the cores of one CPU"), std::string::npos);
  EXPECT_EQ(table_of(scaling).rows.size(), 4u);
  const auto json = json_of(scaling);
  EXPECT_EQ(json.at("devices").size(), 3u);
  EXPECT_DOUBLE_EQ(json.at("times_one").get<double>(), 3 * json.at("of_sum").get<double>());
}

TEST(Scaling, ItIsTheMedianOfTheRoundsOwnShares) {
  Scaling scaling;
  scaling.devices = {{"cuda:0", {100, 200, 100}, {90, 190, 100}}, {"cuda:1", {100, 200, 100}, {90, 200, 100}}};
  EXPECT_EQ(scaling.sums(), (std::vector<double>{200, 400, 200}));
  EXPECT_EQ(scaling.together(), (std::vector<double>{180, 390, 200}));
  EXPECT_DOUBLE_EQ(scaling.of_sum(), 390.0 / 400);
  EXPECT_DOUBLE_EQ(scaling.times_one(), 2 * 390.0 / 400);
  EXPECT_FALSE(scaling.of_sum_interval()) << "three rounds have none";
  EXPECT_NE(verdict_of(scaling).find("1.950 times one device"), std::string::npos) << verdict_of(scaling);
}

TEST(Scaling, WhatCannotBeMeasuredIsRefused) {
  const auto engine = tiny_engine("cpu");
  const auto refused = [&](const Engines& engines, const ScalingOptions& options) {
    try {
      measure_scaling(engines, kShapes, options);
      return std::string("nothing");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return std::string(error.what());
    }
  };
  EXPECT_NE(refused({engine}, {.transfers = true}).find("two devices at least"), std::string::npos);
  EXPECT_NE(refused({engine, engine}, {}).find("cpu works on the host's memory"), std::string::npos);
  EXPECT_NE(refused({engine, engine}, {.rounds = 0, .transfers = true}).find("one round"), std::string::npos);
}

}  // namespace
}  // namespace temper
