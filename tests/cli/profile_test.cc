// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace temper {
namespace {

TEST(ProfileVerb, EveryStepHasItsTimeItsWorkAndItsShareOfTheMachinesLimits) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  ASSERT_EQ(temper(folder, "build m.onnx -o m.plan --threads 1 --quick --shapes image=4x1x8x8").code, 0);
  const Outcome done = temper(folder, "profile m.plan --duration 200ms --json");
  ASSERT_EQ(done.code, 0) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_EQ(json.at("schema"), "temper.profile/1");
  const auto& peaks = json.at("peaks");
  // Any machine that runs this reads more than 0.1 GB/s and does more than 0.1 Gop/s, and less than ten thousand times
  // that on one thread.
  for (const char* name : {"memory_bytes_per_s", "fp32_per_s"}) {
    EXPECT_GT(peaks.at(name).get<double>(), 1e8) << name;
    EXPECT_LT(peaks.at(name).get<double>(), 1e12) << name;
  }
  double share = 0, ms = 0;
  int convolutions = 0;
  for (const auto& step : json.at("steps")) {
    share += step.at("share").get<double>();
    ms += step.at("ms").get<double>();
    EXPECT_GT(step.at("bytes").get<int64_t>(), 0);
    if (step.at("op") != "conv") continue;
    ++convolutions;
    EXPECT_GT(step.at("operations").get<int64_t>(), 0);
    // Of what was measured, whatever that is on a busy machine; with Winograd's products it may be above 1.
    const double per_s = double(step.at("operations").get<int64_t>()) / (step.at("ms").get<double>() / 1e3);
    EXPECT_NEAR(step.at("of_arithmetic_peak").get<double>() / (per_s / peaks.at("fp32_per_s").get<double>()), 1, 1e-6)
        << step;
    EXPECT_EQ(step.at("precision_in"), "f32");
    EXPECT_FALSE(step.at("lost").empty());
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_NEAR(ms, json.at("steps_ms").get<double>(), 1e-9);
  EXPECT_GT(convolutions, 0);
  EXPECT_GT(json.at("run_ms").get<double>(), 0);

  // The peaks are kept. Where others worked meanwhile they are measured again, and the higher ones stay.
  const auto again = nlohmann::json::parse(temper(folder, "profile m.plan --duration 50ms --json").out);
  for (const char* name : {"memory_bytes_per_s", "fp32_per_s"})
    EXPECT_GE(again.at("peaks").at(name).get<double>(), peaks.at(name).get<double>() * (1 - 1e-6));

  const Outcome table = temper(folder, "profile m.plan --duration 50ms --top 2 --csv p.csv");
  EXPECT_CONTAINS(table.out, "of the limit");
  EXPECT_CONTAINS(table.out, "timed one by one");
  const std::string csv = read_file(folder + "p.csv");
  EXPECT_EQ(size_t(std::count(csv.begin(), csv.end(), '\n')), json.at("steps").size() + 1);
}

TEST(ProfileVerb, AModelIsBuiltOnTheSpotAndATraceHasItsSteps) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  const Outcome shown = temper(folder, "profile m.onnx --duration 50ms --json --trace t.json");
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto profile = nlohmann::json::parse(shown.out), trace = nlohmann::json::parse(read_file(folder + "t.json"));
  double end_us = 0, steps_us = 0;
  size_t steps = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("tid") != 1) continue;
    EXPECT_EQ(event.at("name"), profile.at("steps")[steps++].at("node"));
    EXPECT_NEAR(event.at("ts").get<double>(), end_us, 1e-6);  // one behind the other
    steps_us += event.at("dur").get<double>();
    end_us = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_EQ(steps, profile.at("steps").size());
  EXPECT_NEAR(steps_us, 1e3 * profile.at("steps_ms").get<double>(), 1e-3);
  EXPECT_EQ(temper(folder, "profile m.onnx --duration 50ms --trace m.onnx").code, int(ErrorKind::usage));
}

}  // namespace
}  // namespace temper
