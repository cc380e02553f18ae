// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_log.h"

#include <gtest/gtest.h>

#include "interop/trtexec_check.h"
#include "logs.h"

namespace temper {
namespace {

TrtexecRun only(const std::string& text) {
  const auto runs = read_trtexec_log(text);
  EXPECT_EQ(runs.size(), 1u);
  return runs.empty() ? TrtexecRun{} : runs[0];
}

void expect_stats(const std::optional<TrtexecStats>& stats, double min, double max, double mean, double median,
                  const std::vector<std::pair<double, double>>& percentiles) {
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->min, min);
  EXPECT_EQ(stats->max, max);
  EXPECT_EQ(stats->mean, mean);
  EXPECT_EQ(stats->median, median);
  EXPECT_EQ(stats->percentiles, percentiles);
}

TEST(TrtexecLog, EveryNumberOfTheMnistLogIsThatOfItsText) {
  const TrtexecRun run = only(fixture("trt8601_mnist_summary.log"));
  EXPECT_EQ(run.version, "8.6.1");
  EXPECT_EQ(run.command, "trtexec --onnx=/tmp/mnist-12.onnx");
  EXPECT_EQ(run.status, TrtexecStatus::passed);
  EXPECT_EQ(run.throughput_qps, 40624.2);
  expect_stats(run.latency, 0.020874, 0.354187, 0.0249536, 0.0246582,
               {{90, 0.0258789}, {95, 0.0263672}, {99, 0.0344238}});
  expect_stats(run.enqueue, 0.0117188, 0.0712891, 0.0130411, 0.0126343,
               {{90, 0.0130005}, {95, 0.0134277}, {99, 0.0257568}});
  expect_stats(run.h2d, 0.00195312, 0.244873, 0.00396986, 0.00390625,
               {{90, 0.0045166}, {95, 0.00463867}, {99, 0.00488281}});
  expect_stats(run.gpu, 0.0151367, 0.348145, 0.0171428, 0.0166016, {{90, 0.0174561}, {95, 0.0183105}, {99, 0.0256348}});
  expect_stats(run.d2h, 0.00219727, 0.0393066, 0.0038367, 0.00402832,
               {{90, 0.00439453}, {95, 0.0045166}, {99, 0.00476074}});
  EXPECT_FALSE(run.end_to_end);
  EXPECT_EQ(run.walltime_s, 3.00006);
  EXPECT_EQ(run.gpu_total_s, 2.08927);
  EXPECT_EQ(run.warnings,
            std::vector<std::string>{"GPU compute time is unstable, with coefficient of variance = 29.0605%."});
  EXPECT_TRUE(run.problems.empty());
  EXPECT_FALSE(run.queries);
}

TEST(TrtexecLog, EveryNumberOfTheTransformersLogIsThatOfItsText) {
  const TrtexecRun run = only(fixture("trt101300_qwen_summary.log"));
  EXPECT_EQ(run.version, "10.13.0");
  EXPECT_EQ(run.throughput_qps, 0.562059);
  expect_stats(run.latency, 1656.22, 1674.64, 1666.9, 1667.89, {{90, 1673.26}, {95, 1674.64}, {99, 1674.64}});
  expect_stats(run.enqueue, 1650.99, 1672.49, 1663.95, 1663.63, {{90, 1672.08}, {95, 1672.49}, {99, 1672.49}});
  expect_stats(run.h2d, 0.631348, 0.640015, 0.635217, 0.635742, {{90, 0.63623}, {95, 0.640015}, {99, 0.640015}});
  expect_stats(run.gpu, 1655.52, 1673.94, 1666.2, 1667.19, {{90, 1672.56}, {95, 1673.94}, {99, 1673.94}});
  expect_stats(run.d2h, 0.0585938, 0.0664062, 0.0639648, 0.0644531,
               {{90, 0.0654297}, {95, 0.0664062}, {99, 0.0664062}});
  EXPECT_EQ(run.walltime_s, 17.7917);
  EXPECT_EQ(run.gpu_total_s, 16.662);
}

TEST(TrtexecLog, NumbersOfBannersAreVersions) {
  EXPECT_EQ(trtexec_version("8001"), "8.0.1");
  EXPECT_EQ(trtexec_version("8601"), "8.6.1");
  EXPECT_EQ(trtexec_version("7203"), "7.2.3");
  EXPECT_EQ(trtexec_version("100001"), "10.0.1");
  EXPECT_EQ(trtexec_version("100900"), "10.9.0");
  EXPECT_EQ(trtexec_version("101303"), "10.13.3");
  EXPECT_EQ(trtexec_version("110100"), "11.1.0");
  EXPECT_EQ(trtexec_version("11.1.0.106"), "11.1.0");
  EXPECT_EQ(trtexec_version("8.6.1"), "8.6.1");
  for (const char* wrong :
       {"", "86", "x8601", "8601x", "99999999", ".", "1.", "11.1", "11..1", "11.1.0x", "11.1.", ".1.1"})
    EXPECT_FALSE(trtexec_version(wrong)) << wrong;
}

TEST(TrtexecLog, EachVersionsGrammarIsRead) {
  struct Case {
    const char *version, *build, *percentiles;
    bool end_to_end;
  };
  for (const Case& c : {Case{"8001", "", "99", true},
                        {"8201", "", "99", true},
                        {"8401", "", "99", false},
                        {"8503", "", "90 95 99", false},
                        {"8601", "", "90 95 99", false},
                        {"100900", "b34", "90 95 99", false},
                        {"101302", "b6", "90 95 99", false},
                        {"110100", "b1", "90 95 99", false}}) {
    SCOPED_TRACE(c.version);
    const TrtexecRun run =
        only(LogText{.version = c.version, .build = c.build, .percentiles = c.percentiles, .end_to_end = c.end_to_end}
                 .text());
    EXPECT_EQ(run.version, trtexec_version(c.version));
    EXPECT_EQ(run.status, TrtexecStatus::passed);
    EXPECT_EQ(run.queries, 100);
    EXPECT_EQ(run.warmup_queries, 5);
    EXPECT_EQ(run.build_s, 104.774);
    EXPECT_EQ(run.engine_mib, 231.019);
    EXPECT_EQ(run.options.at("Selected Device"), "NVIDIA A100-SXM4-80GB");
    EXPECT_EQ(run.shapes.at("x"), (std::vector<int64_t>{8, 3, 224, 224}));
    ASSERT_EQ(run.end_to_end.has_value(), c.end_to_end);
    if (c.end_to_end) { EXPECT_EQ(run.end_to_end->max, 4.125); }
    EXPECT_EQ(run.latency->percentiles.size(), c.end_to_end || std::string_view(c.version) == "8401" ? 1u : 3u);
    EXPECT_EQ(run.gpu->mean, 2);
    EXPECT_TRUE(run.problems.empty()) << run.problems[0];
    EXPECT_TRUE(run.contradictions.empty());
    const TrtexecChecks checks = check_numbers(run, 1);
    EXPECT_GT(checks.done, 10);
    EXPECT_TRUE(checks.failures.empty()) << checks.failures[0];
  }
}

TEST(TrtexecLog, TheSummaryOfSeveralLinesOfVersion7IsRead) {
  const TrtexecRun run = only(old_log());
  EXPECT_TRUE(run.multi_line);
  EXPECT_FALSE(run.version);
  expect_stats(run.latency, 2.3, 2.5, 2.375, 2.37, {{99, 2.5}});
  expect_stats(run.end_to_end, 3.25, 4.125, 3.5, 3.4, {{99, 4.125}});
  expect_stats(run.gpu, 1.95, 2.1, 2, 1.99, {{99, 2.1}});
  ASSERT_TRUE(run.enqueue);
  EXPECT_EQ(run.enqueue->median, 0.0625);
  EXPECT_FALSE(run.enqueue->mean);
  EXPECT_EQ(run.throughput_qps, 400);
  EXPECT_EQ(run.walltime_s, 0.25);
  EXPECT_EQ(run.gpu_total_s, 0.2);
  EXPECT_TRUE(run.problems.empty());
  EXPECT_TRUE(check_numbers(run, 1).failures.empty());
}

// What terminals, shells, docker, PowerShell and web pages do to a log.
TEST(TrtexecLog, WhatCarriesALogDoesNotChangeWhatItSays) {
  const std::string text = LogText{.end_to_end = true}.text();
  auto each_line = [&](auto change) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      out += change(text.substr(at, end - at));
      at = end + 1;
    }
    return out;
  };
  std::string wide = "\xff\xfe";
  for (char c : text) wide += c, wide += '\0';
  const std::pair<const char*, std::string> variants[] = {
      {"CR LF", each_line([](const std::string& l) { return l + "\r\n"; })},
      {"colours", each_line([](const std::string& l) {
         return "\x1b[32m" + l.substr(0, 9) + "\x1b[0;1m" + l.substr(9) + "\x1b[0m\n";
       })},
      {"docker", each_line([](const std::string& l) { return "trt-1  | 2025-11-14T09:01:02.123Z " + l + "\n"; })},
      {"prompt", each_line([](const std::string& l) { return "root@host:/workspace# " + l + "   \n"; })},
      {"no line breaks", each_line([](const std::string& l) { return l; })},
      {"no dates", each_line([](const std::string& l) { return (l.starts_with("[11") ? l.substr(22) : l) + "\n"; })},
      {"a progress bar", each_line([](const std::string& l) { return "building 12%\r" + l + "\n"; })},
      {"UTF-16", wide},
      {"a byte order mark", "\xef\xbb\xbf" + text},
  };
  const TrtexecRun expected = only(text);
  for (const auto& [name, variant] : variants) {
    SCOPED_TRACE(name);
    const TrtexecRun run = only(variant);
    EXPECT_EQ(run.version, expected.version);
    EXPECT_EQ(run.status, TrtexecStatus::passed);
    EXPECT_EQ(run.command, expected.command);
    EXPECT_EQ(run.options, expected.options);
    EXPECT_EQ(run.queries, expected.queries);
    EXPECT_EQ(run.throughput_qps, expected.throughput_qps);
    EXPECT_EQ(run.gpu_total_s, expected.gpu_total_s);
    for (const auto stats : {&TrtexecRun::latency, &TrtexecRun::end_to_end, &TrtexecRun::enqueue, &TrtexecRun::h2d,
                             &TrtexecRun::gpu, &TrtexecRun::d2h}) {
      ASSERT_TRUE(run.*stats);
      EXPECT_EQ((run.*stats)->mean, (expected.*stats)->mean);
      EXPECT_EQ((run.*stats)->percentiles, (expected.*stats)->percentiles);
    }
    EXPECT_TRUE(run.problems.empty()) << run.problems[0];
  }
}

TEST(TrtexecLog, LinesThatRanTogetherWithoutAnyStampAreParted) {
  const TrtexecRun run =
      only("Throughput: 8 qpsLatency: min = 1 ms, max = 2 ms, mean = 1.5 ms, median = 1.5 msTotal Host Walltime: 3 s");
  EXPECT_EQ(run.throughput_qps, 8);
  EXPECT_EQ(run.latency->median, 1.5);
  EXPECT_EQ(run.walltime_s, 3);
}

TEST(TrtexecLog, SeveralRunsOfOneFileAreKeptApart) {
  const std::string a = LogText{.version = "8401", .percentiles = "99"}.text(),
                    b = LogText{.version = "100900", .command = "trtexec --onnx=b.onnx"}.text();
  auto runs = read_trtexec_log("make bench\n" + a + "[TRT] [MemUsageChange] late\n" + kStamp.data() + "late: CPU +1\n" +
                               b + old_log());
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].version, "8.4.1");
  EXPECT_EQ(runs[1].command, "trtexec --onnx=b.onnx");
  EXPECT_TRUE(runs[2].multi_line);
  // Summaries alone, as grep leaves them.
  const std::string bare = "Throughput: 8 qps\nLatency: min = 1 ms, max = 2 ms, mean = 1.5 ms, median = 1.5 ms\n";
  runs = read_trtexec_log(bare + "--\n" + bare);
  EXPECT_EQ(runs.size(), 2u);
}

TEST(TrtexecLog, ALogThatEndsEarlyHasWhatWasWholeAndNothingElse) {
  const std::string text = LogText{}.text();
  const size_t at = text.find("mean = 2 ms, median = 2");
  const TrtexecRun run = only(text.substr(0, at + 23));
  EXPECT_EQ(run.status, TrtexecStatus::running);
  EXPECT_EQ(run.gpu->mean, 2);
  EXPECT_FALSE(run.gpu->median);  // a number without its unit may be half of one
  EXPECT_FALSE(run.d2h);
  ASSERT_EQ(run.problems.size(), 1u);
  EXPECT_NE(run.problems[0].find("not readable"), std::string::npos);
}

TEST(TrtexecLog, NumbersOfAnotherLocaleOrWithoutUnitAreNotGuessed) {
  for (const char* number : {"0,562 qps", "1.234,5 qps", "1,234 qps", "nan qps", "-nan qps", "-1 qps", ".5 qps",
                             "5. qps", "1e qps", "1e999 qps", "0x10 qps", "5", "5 qpm"}) {
    const TrtexecRun run =
        only(concat("&&&& RUNNING TensorRT.trtexec # trtexec\n", kStamp, "Throughput: ", number, "\n"));
    EXPECT_FALSE(run.throughput_qps) << number;
    EXPECT_EQ(run.problems.size(), 1u) << number;
  }
  for (const char* number : {"0", "7", "0.5", "1e-05", "1.25e+06"})
    EXPECT_TRUE(only(concat("Throughput: ", number, " qps")).throughput_qps) << number;
  const TrtexecRun comma = only("Latency: min = 1 ms, max = 2,5 ms, mean = 1 ms");
  EXPECT_EQ(comma.latency->min, 1);
  EXPECT_FALSE(comma.latency->max);
  EXPECT_FALSE(comma.latency->mean);
}

TEST(TrtexecLog, LookAlikesOfTheSummaryAreNotTaken) {
  EXPECT_TRUE(read_trtexec_log("").empty());
  EXPECT_TRUE(read_trtexec_log(
                  "my Latency: min = 1 ms\nThe Throughput: 5 qps was fine\n&&&& PASSED TensorRT.sample_mnist # x\n")
                  .empty());
  EXPECT_FALSE(only("H2D Latency: min = 1 ms, max = 2 ms").latency);
}

TEST(TrtexecChecks, PercentilesAreThoseElementsThatTrtexecTakes) {
  EXPECT_EQ(trtexec_percentile_excludes(99, 29), 0);
  EXPECT_EQ(trtexec_percentile_excludes(99, 99), 0);
  EXPECT_EQ(trtexec_percentile_excludes(90, 10), 1);  // single precision: double would give 0
  EXPECT_EQ(trtexec_percentile_excludes(95, 10), 0);
  EXPECT_EQ(trtexec_percentile_excludes(95, 29), 1);
}

TEST(TrtexecChecks, TheFixturesAgreeWithThemselvesAndTellTheirQueries) {
  const TrtexecChecks qwen = check_numbers(only(fixture("trt101300_qwen_summary.log")), 1);
  EXPECT_TRUE(qwen.failures.empty()) << qwen.failures[0];
  EXPECT_EQ(qwen.queries, 10);
  EXPECT_TRUE(qwen.queries_derived);
  const TrtexecChecks mnist = check_numbers(only(fixture("trt8601_mnist_summary.log")), 1);
  EXPECT_TRUE(mnist.failures.empty()) << mnist.failures[0];
  EXPECT_FALSE(mnist.queries);  // six digits do not tell 121875 from its neighbours
  EXPECT_NEAR(mnist.about_queries.value(), 121875, 1);
}

TEST(TrtexecChecks, EachKindOfContradictionIsFound) {
  const std::string good = LogText{}.text();
  const auto failing = [&](std::string_view what, std::string_view by, std::string_view part) {
    std::string text = good;
    const size_t at = text.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), by);
    const auto runs = read_trtexec_log(text);
    ASSERT_FALSE(runs.empty());
    std::string all;
    for (const std::string& failure : check_numbers(runs[0], 1).failures) all += failure + "\n";
    EXPECT_NE(all.find(part), std::string::npos) << what << " -> " << by << ": " << all;
  };
  failing("Throughput: 400 qps", "Throughput: 401 qps", "is not 100 queries in");
  failing("mean = 2.375 ms", "mean = 2.4 ms", "not the sum of H2D, GPU and D2H");
  failing("Total GPU Compute Time: 0.2 s", "Total GPU Compute Time: 0.21 s", "not the mean times the queries");
  failing("min = 2.3 ms", "min = 2.39 ms", "is above");
  failing("percentile(90%) = 2.1 ms", "percentile(90%) = 2.2 ms", "is above");
  failing("# trtexec --onnx=net.onnx", "# trtexec --onnx=other.onnx", "several runs are mixed");
  failing("&&&& PASSED TensorRT.trtexec [TensorRT v8601]", "&&&& PASSED TensorRT.trtexec [TensorRT v8501]",
          "ends as 8.5.1");
  std::string ten = good;
  for (const auto& [what, by] : {std::pair{"has 100 queries over 0.25 s", "has 10 queries over 0.025 s"},
                                 {"percentile(99%) = 2.1 ms", "percentile(99%) = 2.05 ms"}})
    ten.replace(ten.find(what), std::string_view(what).size(), by);
  const auto checks = check_numbers(read_trtexec_log(ten)[0], 1);
  EXPECT_NE(concat(checks.failures).find("is the maximum, but 2.05"), std::string::npos) << concat(checks.failures);
}

}  // namespace
}  // namespace temper
