// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace temper {
namespace {

// A run of `count` samples around `ms`, with noise of `noise` of it.
BenchRun run_of(double ms, int count = 400, double noise = 0.02, unsigned seed = 1) {
  std::mt19937 random(seed);
  Samples samples;
  for (int i = 0; i < count; ++i) samples.ms.push_back(ms * (1 + noise * double(random() % 1000) / 1000));
  BenchRun run;
  run.model = "m.plan";
  run.model_sha256 = run.source_sha256 = std::string(64, 'a');
  run.device = run.backend = "cpu";
  run.precision = "fp32";
  run.shapes = {{"x", {1, 3}}};
  run.threads = 2;
  set_samples(run, samples);
  return run;
}

// A summary alone, as a log has it.
BenchRun summary_of_log(double min, double median, double p90, double max, int64_t count) {
  BenchRun run = run_of(1);
  run.samples_ms.reset();
  run.samples = count;
  run.latency = {};
  run.latency.min = min;
  run.latency.median = median;
  run.latency.p90 = p90;
  run.latency.max = max;
  run.imported.emplace();
  return run;
}

Differences between(const BenchRun& a, const BenchRun& b) {
  Environment e;
  e.cpu_model = "some CPU";
  return differences_of({&a, &e}, {&b, &e});
}

TEST(Compare, VerdictsComeFromTheSamples) {
  EXPECT_EQ(compare_runs(run_of(10), run_of(8, 400, 0.02, 2)).verdict, Verdict::faster);
  EXPECT_NEAR(compare_runs(run_of(10), run_of(8, 400, 0.02, 2)).ratio, 1.25, 0.01);
  EXPECT_EQ(compare_runs(run_of(8), run_of(10, 400, 0.02, 2)).verdict, Verdict::slower);
  EXPECT_EQ(compare_runs(run_of(10), run_of(10, 400, 0.02, 2)).verdict, Verdict::same);
  const Comparison unsure = compare_runs(run_of(10, 30, 0.5), run_of(10.2, 30, 0.5, 2));
  EXPECT_EQ(unsure.verdict, Verdict::unsure);
  EXPECT_GT(unsure.samples_factor.value(), 1);
}

TEST(Compare, OfSeveralNumbersOfThreadsTheFastestIsNamedByTheInterval) {
  BenchRun one = run_of(5), two = run_of(10, 400, 0.02, 2), four = run_of(5, 400, 0.02, 3);
  one.threads = 1;
  four.threads = 4;
  const std::string both = fastest_threads({&one, &two});
  EXPECT_TRUE(both.starts_with("1 thread is the fastest: 2 threads take 2.00 times as long (")) << both;
  EXPECT_EQ(fastest_threads({&two, &one}), both);
  EXPECT_NE(fastest_threads({&one, &two, &four}).find("; no difference is shown where 4 threads take 0.9"),
            std::string::npos)
      << fastest_threads({&one, &two, &four});
  BenchRun few = run_of(5, 3);
  EXPECT_TRUE(fastest_threads({&one, &few}).starts_with("no number of threads is shown to be the fastest: beside "))
      << fastest_threads({&one, &few});
}

TEST(Compare, SummariesOfLogsGiveAWiderIntervalAndNeverAFalseOne) {
  const Comparison clear = compare_runs(summary_of_log(9.9, 10, 10.2, 11, 300), summary_of_log(4.9, 5, 5.1, 6, 300));
  EXPECT_EQ(clear.verdict, Verdict::faster);
  EXPECT_EQ(clear.from, "the summary: its minimum and its p90");
  EXPECT_DOUBLE_EQ(clear.interval->low, 9.9 / 5.1);
  EXPECT_EQ(compare_runs(summary_of_log(9.9, 10, 10.2, 11, 300), summary_of_log(9.5, 9.8, 10.1, 11, 300)).verdict,
            Verdict::unsure);
  EXPECT_EQ(compare_runs(summary_of_log(9.9, 10, 10, 10, 29), summary_of_log(4.9, 5, 5.1, 6, 29)).from,
            "the summary: its minimum and its p90");
  BenchRun few = summary_of_log(4.9, 5, 5.1, 6, 29);
  few.notes["latency_ms.p90"] = "max of 29";  // kept as the log has it, and never used
  EXPECT_EQ(compare_runs(few, few).from, "the summary: its minimum and maximum");
  EXPECT_EQ(compare_runs(summary_of_log(9.9, 10, 10, 10, 12), summary_of_log(4.9, 5, 5.1, 6, 12)).from,
            "the summary: its minimum and maximum");
  EXPECT_EQ(compare_runs(summary_of_log(9.9, 10, 10, 10, 5), summary_of_log(4.9, 5, 5.1, 6, 5)).verdict,
            Verdict::unsure);
}

TEST(Compare, ContradictoryAndDriftingRunsGetNoVerdict) {
  BenchRun wrong = summary_of_log(4.9, 5, 5.1, 6, 300);
  wrong.imported->consistent = false;
  wrong.imported->source = "x.log";
  const Comparison refused = compare_runs(run_of(10), wrong);
  EXPECT_EQ(refused.verdict, Verdict::unsure);
  EXPECT_NE(refused.why.find("contradict"), std::string::npos) << refused.why;
  BenchRun drifts = run_of(5);
  for (size_t i = 0; i < drifts.samples_ms->size(); ++i) (*drifts.samples_ms)[i] *= 1 + 0.0005 * double(i);
  set_series(drifts);
  const Comparison drifting = compare_runs(run_of(10), drifts);
  EXPECT_EQ(drifting.verdict, Verdict::unsure);
  EXPECT_NE(drifting.why.find("drifts"), std::string::npos) << drifting.why;
  EXPECT_EQ(gate_of(drifting, 0.03).verdict, GateVerdict::unsure);
  EXPECT_EQ(gate_of(drifting, 0.03).why, drifting.why);
}

TEST(Compare, EachThingThatMakesRunsUnlikeIsNamed) {
  const auto named = [](auto change, const char* what) {
    BenchRun a = run_of(10), b = run_of(10);
    change(b);
    const Differences d = between(a, b);
    ASSERT_EQ(d.refusals.size(), 1u) << what;
    EXPECT_EQ(d.refusals[0].find(what), 0u) << d.refusals[0];
  };
  EXPECT_TRUE(between(run_of(10), run_of(10)).refusals.empty());
  EXPECT_TRUE(between(run_of(10), run_of(10)).warnings.empty());
  named([](BenchRun& r) { r.device = "cuda:0"; }, "device");
  named([](BenchRun& r) { r.shapes = {{"x", {1, 4}}}; }, "shapes");
  named([](BenchRun& r) { r.batch = 8; }, "batch: 1 and 8");
  named([](BenchRun& r) { r.threads = 1; }, "threads: 2 and 1");
  named([](BenchRun& r) { r.streams = 2; }, "streams: 1 and 2");
  named([](BenchRun& r) { r.transfers = "included"; }, "transfers: none and included");
  named([](BenchRun& r) { r.transfers.reset(); }, "transfers: none and unknown");
  named([](BenchRun& r) { r.cuda_graph = true; }, "CUDA graph: no and yes");
  named([](BenchRun& r) { r.model_sha256 = r.source_sha256 = std::string(64, 'b'); }, "model");
  named([](BenchRun& r) { r.model_sha256.reset(), r.source_sha256.reset(); }, "model");
}

TEST(Compare, AModelDerivedFromTheSameSourceIsTheSameModelAndUnknownOnesAreAWarning) {
  BenchRun a = run_of(10), b = run_of(10);
  b.model_sha256 = std::string(64, 'c');  // exported from a: its source_sha256 says so
  EXPECT_TRUE(between(a, b).refusals.empty());
  for (BenchRun* run : {&a, &b}) run->model_sha256.reset(), run->source_sha256.reset();
  EXPECT_TRUE(between(a, b).refusals.empty());
  ASSERT_EQ(between(a, b).warnings.size(), 1u);
  EXPECT_NE(between(a, b).warnings[0].find("unknown on both sides"), std::string::npos);
}

TEST(Compare, RunsAreMatchedByWhatTheyHaveInCommon) {
  BenchResult a, b;
  for (int64_t batch : {1, 8})
    for (const char* precision : {"fp32", "int8"}) {
      BenchRun run = run_of(10);
      run.batch = batch;
      run.shapes = {{"x", {batch, 3}}};
      run.precision = precision;
      a.runs.push_back(run);
      b.runs.insert(b.runs.begin(), run);
    }
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(matching_runs(a, b), (Pairs{{0, 3}, {1, 2}, {2, 1}, {3, 0}}));
  for (BenchRun& run : b.runs) run.precision = "bf16";  // none of a's: then the precision is what is compared
  EXPECT_EQ(matching_runs(a, b), (Pairs{{0, 2}, {1, 3}, {2, 0}, {3, 1}}));
  for (BenchRun& run : b.runs) run.threads = 7;
  try {
    matching_runs(a, b);
    FAIL() << "nothing belongs together";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("bf16, batch 8, 7 threads"), std::string::npos) << error.what();
  }
}

TEST(Gate, FailsOnlyWhenTheWholeIntervalLiesBeyondTheLimit) {
  const auto gate = [](double ms, double noise, int count) {
    return gate_of(compare_runs(run_of(10, count, noise), run_of(ms, count, noise, 2)), 0.03);
  };
  EXPECT_EQ(gate(10.8, 0.02, 400).verdict, GateVerdict::fail);
  EXPECT_EQ(gate(10.1, 0.02, 400).verdict, GateVerdict::pass);
  EXPECT_EQ(gate(9, 0.02, 400).verdict, GateVerdict::pass);
  const Gate unsure = gate(10.5, 0.5, 30);
  EXPECT_EQ(unsure.verdict, GateVerdict::unsure);
  EXPECT_GT(unsure.samples_factor.value(), 1);
  EXPECT_NEAR(gate(10.8, 0.02, 400).slowdown, 0.08, 0.005);
}

}  // namespace
}  // namespace temper
