// SPDX-License-Identifier: Apache-2.0
#include "bench/results.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace temper {
namespace {

TEST(Results, AMedianWithoutAnIntervalSaysWhetherSamplesAreFewOrAlike) {
  Samples samples;
  samples.ms = {3, 1, 2};
  BenchRun run;
  set_samples(run, samples);
  EXPECT_EQ(run.notes.at("latency_ms.median_ci95"), "n/a (needs ≥ 6 samples)");
  samples.ms.clear();
  for (int i = 0; i < 60; ++i) samples.ms.push_back(1 + i / 30 + 0.001 * (i % 7));  // one speed, then another
  set_samples(run, samples);
  EXPECT_FALSE(run.latency.median_ci95);
  EXPECT_EQ(run.notes.at("latency_ms.median_ci95").find("n/a (each sample tells of the next: 60 are worth "), 0u)
      << run.notes.at("latency_ms.median_ci95");
}

BenchResult example(int count = 100) {
  Samples samples;
  samples.first_run_ms = 12.5;
  samples.warmup_runs = 9;
  samples.stop = Stop::error_reached;
  samples.relative_error = 0.004;
  for (int i = 0; i < count; ++i) samples.ms.push_back(10.01 + 0.01 * (i * 37 % count));  // in no order
  BenchResult result;
  result.environment = read_environment(2);
  BenchRun run;
  run.model = "résumé \"m\".onnx";
  run.model_sha256 = std::string(64, 'a');
  run.source_sha256 = std::string(64, 'b');
  run.command = "temper bench m.onnx";
  run.load_by_others = 0.02;
  run.workspace_bytes = 4096;
  run.device = "cpu";
  run.backend = "cpu";
  run.precision = "fp32";
  run.batch = 8;
  run.shapes = {{"x", {8, 3, 224, 224}}};
  run.threads = 2;
  run.peak_host_bytes = int64_t(1) << 40;
  run.plan_bytes = 1000;
  run.build_s = 1.25;
  run.notes["peak_device_bytes"] = "no device memory is used";
  set_samples(run, samples);
  result.runs.push_back(run);
  return result;
}

std::string error_of(const std::string& text, ErrorKind kind = ErrorKind::bad_file) {
  try {
    result_from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "(no error)";
}

// The example with one change, as text.
template <class Change>
std::string changed(Change change) {
  nlohmann::json json = nlohmann::json::parse(to_json(example()));
  change(json);
  return json.dump();
}

TEST(Results, WattsOfTheCpuStandInARunOnlyWhereTheyWereRead) {
  EXPECT_FALSE(nlohmann::json::parse(to_json(example())).at("runs")[0].contains("cpu_watts_mean"));
  BenchResult result = example();
  result.runs[0].cpu_watts_mean = 35.5;
  EXPECT_EQ(result_from_json(to_json(result)).runs[0].cpu_watts_mean, 35.5);
  EXPECT_EQ(error_of(changed([](auto& json) { json["runs"][0]["cpu_watts_mean"] = -1; })),
            "runs[0].cpu_watts_mean: not a finite number of at least 0");
}

TEST(Results, SchemaHasEveryFieldOfTheDocument) {
  const auto json = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(json.at("schema"), "temper.result/1");
  for (const char* name : {"model",
                           "model_sha256",
                           "device",
                           "backend",
                           "precision",
                           "batch",
                           "shapes",
                           "threads",
                           "samples",
                           "warmup_runs",
                           "transfers",
                           "cuda_graph",
                           "first_run_ms",
                           "latency_ms",
                           "throughput_per_s",
                           "peak_host_bytes",
                           "peak_device_bytes",
                           "plan_bytes",
                           "build_s",
                           "samples_ms",
                           "notes",
                           "source_sha256",
                           "command",
                           "streams",
                           "load",
                           "request_rate_per_s",
                           "outliers",
                           "drift",
                           "load_by_others",
                           "workspace_bytes"})
    EXPECT_TRUE(json["runs"][0].contains(name)) << name;
  EXPECT_EQ(json["runs"][0].size(), 30u);
  for (const char* name : {"median", "mean", "min", "max", "stddev", "p90", "p95", "p99", "median_ci95", "mean_ci95",
                           "p90_ci95", "p95_ci95", "p99_ci95"})
    EXPECT_TRUE(json["runs"][0]["latency_ms"].contains(name)) << name;
}

TEST(Results, StatisticsFollowFromTheSamples) {
  const BenchRun run = example().runs[0];
  EXPECT_DOUBLE_EQ(run.latency.median.value(), 10.505);
  EXPECT_DOUBLE_EQ(run.latency.min.value(), 10.01);
  EXPECT_DOUBLE_EQ(run.latency.max.value(), 11);
  EXPECT_NEAR(run.latency.p90.value(), 10.9, 1e-9);
  EXPECT_NEAR(run.latency.p95.value(), 10.95, 1e-9);
  EXPECT_FALSE(run.latency.p99);
  EXPECT_EQ(run.notes.at("latency_ms.p99"), "n/a (needs ≥ 459 samples)");
  EXPECT_NEAR(run.throughput_per_s.value(), 8000 / run.latency.mean.value(), 1e-9);
  EXPECT_LT(run.latency.median_ci95->low, 10.505);
  EXPECT_GT(run.latency.median_ci95->high, 10.505);
  EXPECT_TRUE(example(500).runs[0].latency.p99);
  EXPECT_FALSE(example(5).runs[0].latency.median_ci95);
  EXPECT_NO_THROW(check(example(5)));
}

TEST(Results, FarSamplesAreCountedAndKept) {
  Samples samples;
  for (int i = 0; i < 40; ++i) samples.ms.push_back(10 + 0.1 * (i * 17 % 40));
  samples.ms[7] = 90;
  BenchRun run = example().runs[0];
  set_samples(run, samples);
  EXPECT_EQ(run.outliers, 1);
  EXPECT_EQ(run.latency.max, 90);
  EXPECT_EQ(run.samples_ms->size(), 40u);
}

TEST(Results, ARunThatDriftsSaysSoAndIsUnfitForAVerdict) {
  BenchResult result = example(120);
  EXPECT_EQ(unfit_for_verdict(result.runs[0]), "");
  Samples samples;
  for (int i = 0; i < 120; ++i) samples.ms.push_back(10 * (1 + 0.001 * i) + 0.01 * (i * 37 % 120));
  set_samples(result.runs[0], samples);
  EXPECT_NEAR(result.runs[0].drift.value(), 0.08, 0.01);
  EXPECT_NE(unfit_for_verdict(result.runs[0]).find("it drifts: the last third of the samples is 8."), std::string::npos)
      << unfit_for_verdict(result.runs[0]);
  const std::string text = to_json(result);
  EXPECT_EQ(to_json(result_from_json(text)), text);
  bool warned = false;
  for (const Warning& warning : warnings_of(result.runs[0], result.environment))
    warned |= warning.cause.find("drifts") != std::string::npos && !warning.remedy.empty();
  EXPECT_TRUE(warned);
}

TEST(Results, WarningsNameTheCauseAndARemedy) {
  Environment e = read_environment(1);
  e.governor = "";
  e.physical_cores = e.allowed_cores = 4;
  e.cgroup_cores.reset();
  EXPECT_TRUE(warnings_of(e).empty());
  const auto warned = [&](auto change, const char* part) {
    Environment changed = e;
    change(changed);
    const auto warnings = warnings_of(changed);
    ASSERT_EQ(warnings.size(), 1u) << part;
    EXPECT_NE(warnings[0].cause.find(part), std::string::npos) << warnings[0].cause;
    EXPECT_FALSE(warnings[0].remedy.empty());
  };
  warned([](Environment& c) { c.load_by_others = 0.6; }, "other processes used 0.60 of 4 cores");
  warned([](Environment& c) { c.governor = "powersave"; }, "powersave");
  warned([](Environment& c) { c.clock_mhz_before = 4000, c.clock_mhz_after = 3500; }, "from 4000 to 3500 MHz");
  warned([](Environment& c) { c.throttle_events = 3; }, "3 times");
  warned([](Environment& c) { c.temperature_after_c = 95; }, "95");
  warned([](Environment& c) { c.threads = 8; }, "8 threads share 4 cores");
  warned([](Environment& c) { c.threads = 4, c.physical_cores = 2; }, "2 physical cores");
  BenchRun run = example().runs[0];
  Samples samples;
  for (int i = 0; i < 500; ++i) samples.ms.push_back(10 + 1e-4 * (i * 37 % 500));
  set_samples(run, samples);
  EXPECT_TRUE(warnings_of(run, e).empty());
  samples.requests_per_s = samples.arrivals_per_s = 200;
  samples.runs_per_s = 100;
  set_samples(run, samples);
  EXPECT_EQ(run.throughput_per_s, 800);
  EXPECT_NE(warnings_of(run, e).at(0).cause.find("the queue grew"), std::string::npos);
}

TEST(Results, WrittenAndReadBackTheFileIsTheSame) {
  for (int count : {1, 100, 500}) {
    const std::string text = to_json(example(count));
    EXPECT_EQ(to_json(result_from_json(text)), text);
  }
}

TEST(Results, SavedFileReplacesTheOldOneAndLoads) {
  const std::string path = ::testing::TempDir() + "temper_result_" + std::to_string(getpid()) + ".json";
  save_result(path, example(10));
  save_result(path, example(20));
  EXPECT_EQ(load_result(path).runs[0].samples, 20);
  write_file_atomically(path, "{");
  try {
    load_result(path);
    FAIL() << "a damaged file was read";
  } catch (const Error& error) { EXPECT_EQ(std::string(error.what()).find(path), 0u) << error.what(); }
  std::filesystem::remove(path);
}

TEST(Results, FaultyFilesAreRefusedWithTheFieldsName) {
  using Json = nlohmann::json;
  EXPECT_NE(error_of("").find("not JSON"), std::string::npos);
  EXPECT_NE(error_of("[]").find("an object expected"), std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '[')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of(R"({"schema": -1e400})").find("not JSON at byte"), std::string::npos);
  EXPECT_NE(error_of(R"({"schema": 1, "schema": 2})").find("twice"), std::string::npos);
  EXPECT_EQ(error_of("{}"), "schema: this field is missing");
  EXPECT_EQ(error_of(changed([](Json& j) { j["schema"] = "temper.result/2"; }), ErrorKind::unsupported),
            "the schema is 'temper.result/2', this version of Temper reads 'temper.result/1': read the file with the "
            "version that wrote it, or write it again with this one: temper bench --json FILE");
  EXPECT_EQ(error_of(changed([](Json& j) { j["extra"] = 1; })), "extra: unknown field in temper.result/1");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0].erase("threads"); })),
            "runs[0].threads: this field is missing");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["batch"] = "8"; })),
            "runs[0].batch: an integer of 64 bits expected, found string");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["batch"] = 18446744073709551615u; })),
            "runs[0].batch: an integer of 64 bits expected, found number");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["threads"] = 5000000000; })),
            "runs[0].threads: 5000000000 is too large");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["samples_ms"][3] = true; })),
            "runs[0].samples_ms[3]: a number expected, found boolean");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["latency_ms"]["median_ci95"] = {1}; })),
            "runs[0].latency_ms.median_ci95: [low, high] expected, found array");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["build_s"] = nullptr; })),
            "runs[0].build_s: is null, and notes do not say why");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["samples"] = 7; })),
            "runs[0].samples_ms: has 100 values, but samples is 7");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["latency_ms"]["median"] = 99; })),
            "runs[0].latency_ms.median: 99 lies outside min and max");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["transfers"] = "some"; })),
            "runs[0].transfers: is 'some'; it must be none, included or excluded");
  EXPECT_EQ(error_of(changed([](Json& j) { j["runs"][0]["model_sha256"] = "abc"; })),
            "runs[0].model_sha256: is not a SHA-256 in lower-case hexadecimal digits");
  EXPECT_EQ(error_of(changed([](Json& j) { j["environment"].erase("time"); })),
            "environment.time: this field is missing");
}

TEST(Results, NumbersThatAreNotFiniteAreNotWritten) {
  BenchResult result = example();
  result.runs[0].build_s = std::nan("");
  EXPECT_THROW(to_json(result), Error);
}

TEST(Results, ShortFixedAndUnstableMeasurementsAreNoted) {
  Samples samples;
  samples.ms = {1, 1, 1};
  samples.calls_per_sample = 12;
  samples.fixed_counts = true;
  samples.warmup_stable = false;
  BenchRun run;
  set_samples(run, samples);
  EXPECT_NE(run.notes.at("samples_ms").find("mean of 12 calls"), std::string::npos);
  EXPECT_NE(run.notes.at("samples").find("counts were fixed"), std::string::npos);
  EXPECT_TRUE(run.notes.contains("warmup_runs"));
}

}  // namespace
}  // namespace temper
