// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_import.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "logs.h"

namespace temper {
namespace {

BenchRun imported(const std::vector<TrtexecFile>& files, const std::map<std::string, std::string>& known = {}) {
  const TrtexecImport imported = import_trtexec(files, known);
  EXPECT_EQ(imported.runs.size(), 1u);
  EXPECT_TRUE(imported.left_out.empty());
  const BenchResult result{{}, imported.runs};
  EXPECT_NO_THROW(check(result));
  EXPECT_EQ(to_json(result_from_json(to_json(result))), to_json(result));
  return imported.runs[0];
}
BenchRun imported(const std::string& text, const std::map<std::string, std::string>& known = {}) {
  return imported({{"x.log", text}}, known);
}

Error error_of(const std::vector<TrtexecFile>& files, const std::map<std::string, std::string>& known = {}) {
  try {
    import_trtexec(files, known);
  } catch (const Error& error) { return error; }
  return Error(ErrorKind::check_failed, "(no error)");
}

TEST(TrtexecImport, AFullLogBecomesARunWithEveryFieldAndItsMeaning) {
  const BenchRun run = imported(LogText{}.text());
  EXPECT_EQ(run.model, "net.onnx");
  EXPECT_EQ(run.backend, "tensorrt");
  EXPECT_EQ(run.device, "cuda:0");
  EXPECT_EQ(run.precision, "fp32");
  EXPECT_EQ(run.batch, 8);
  EXPECT_EQ(run.shapes.at("x"), (std::vector<int64_t>{8, 3, 224, 224}));
  EXPECT_EQ(run.samples, 100);
  EXPECT_EQ(run.warmup_runs, 5);
  EXPECT_EQ(run.transfers, "included");
  EXPECT_EQ(run.cuda_graph, false);
  EXPECT_EQ(run.latency.mean, 2.375);
  EXPECT_EQ(run.throughput_per_s, 3200);  // 400 queries of 8 items
  EXPECT_EQ(run.build_s, 104.774);
  EXPECT_EQ(run.plan_bytes, 242240979);
  EXPECT_FALSE(run.threads);
  EXPECT_FALSE(run.samples_ms);
  EXPECT_FALSE(run.model_sha256);
  ASSERT_TRUE(run.imported);
  const ImportedRun& from = *run.imported;
  EXPECT_EQ(from.source, "trtexec log x.log");
  EXPECT_EQ(from.tensorrt_version, "8.6.1");
  EXPECT_EQ(run.command, "trtexec --onnx=net.onnx --shapes=x:8x3x224x224");
  EXPECT_EQ(from.device_name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(from.throughput_qps, 400);
  EXPECT_EQ(from.walltime_s, 0.25);
  EXPECT_EQ(from.gpu->max, 2.1);
  EXPECT_EQ(from.h2d->median, 0.25);
  EXPECT_EQ(from.d2h->mean, 0.125);
  EXPECT_EQ(from.enqueue->min, 0.0078125);
  EXPECT_FALSE(from.end_to_end);
  EXPECT_EQ(from.spin_wait, false);
  EXPECT_EQ(run.streams, 1);
  EXPECT_EQ(from.consistent, true);
  EXPECT_EQ(unfit_for_verdict(run), "");
}

TEST(TrtexecImport, InputsWhoseNamesAreNoUtf8AreInTheSameOrderOnceReadBack) {
  LogText log;
  log.options = false;
  log.command = "trtexec --onnx=net.onnx --optShapes=\xff:1,\xef\xbf\xbe:2,\xf0\x90\x80\x80:3";
  const BenchRun run = imported(log.text());  // which reads it back
  EXPECT_EQ(run.shapes, (std::map<std::string, std::vector<int64_t>>{
                            {"\ufffd", {1}}, {"\xef\xbf\xbe", {2}}, {"\xf0\x90\x80\x80", {3}}}));
}

TEST(TrtexecImport, PercentilesOfTooFewQueriesStayAndAreMarked) {
  const BenchRun run = imported(LogText{}.text());
  EXPECT_EQ(run.latency.p99, 2.5);
  EXPECT_EQ(run.notes.at("latency_ms.p99"), "max of 100");
  EXPECT_FALSE(run.notes.contains("latency_ms.p90"));
  EXPECT_TRUE(percentile_fit_for_verdict(run, "p90"));
  EXPECT_FALSE(percentile_fit_for_verdict(run, "p99"));
  std::string few = LogText{}.text();
  for (const auto& [what, by] : {std::pair{"has 100 queries over", "has 29 queries over"},
                                 {"Throughput: 400 qps", "Throughput: 116 qps"},
                                 {"Time: 0.2 s", "Time: 0.058 s"}})
    few.replace(few.find(what), std::string_view(what).size(), by);
  const BenchRun max = imported(few);
  EXPECT_EQ(max.imported->consistent, true) << max.imported->warnings[0];
  EXPECT_EQ(max.notes.at("latency_ms.p99"), "max of 29");
  EXPECT_EQ(max.notes.at("latency_ms.p90"), "of 29 queries (needs ≥ 44)");
  const BenchRun qwen = imported(fixture("trt101300_qwen_summary.log"));
  EXPECT_EQ(qwen.samples, 10);
  EXPECT_EQ(qwen.notes.at("latency_ms.p99"), "max of 10");
  EXPECT_EQ(qwen.latency.p99, 1674.64);
  const BenchRun mnist = imported(fixture("trt8601_mnist_summary.log"));
  EXPECT_FALSE(mnist.samples);
  EXPECT_EQ(mnist.notes.at("samples"), "about 121875: throughput × time");
  EXPECT_TRUE(percentile_fit_for_verdict(mnist, "p99"));
}

// 11.0 turned three defaults round, so the same command line means different numbers.
TEST(TrtexecImport, WhatTheTimesIncludeFollowsFromVersionAndFlags) {
  struct Case {
    const char *version, *flags, *transfers;
    bool graph, spin;
  };
  for (const Case& c : {Case{"8601", "", "included", false, false},
                        {"101303", "", "included", false, false},
                        {"101303", " --noDataTransfers --useCudaGraph --useSpinWait", "excluded", true, true},
                        {"110000", "", "excluded", true, true},
                        {"110100", " --includeDataTransfers --noCudaGraph --noSpinWait", "included", false, false},
                        {"110100", " --useCudaGraph --noDataTransfers", "excluded", true, true}}) {
    SCOPED_TRACE(concat(std::string_view(c.version), std::string_view(c.flags)));
    const BenchRun run = imported(LogText{.version = c.version,
                                          .command = concat("trtexec --onnx=net.onnx", std::string_view(c.flags)),
                                          .transfers = std::string_view(c.transfers) == "included",
                                          .options = false}
                                      .text());
    EXPECT_EQ(run.transfers, c.transfers);
    EXPECT_EQ(run.cuda_graph, c.graph);
    EXPECT_EQ(run.imported->spin_wait, c.spin);
    EXPECT_EQ(run.imported->consistent, true);
  }
  // What the log prints of its options goes before what the flags ask for.
  EXPECT_EQ(imported(LogText{.cuda_graph = "Enabled"}.text()).cuda_graph, true);
  // Without banner and options only the times themselves tell.
  const std::string bare =
      "Throughput: 400 qps\nH2D Latency: min = 0 ms, max = 0 ms\nD2H Latency: min = 0 ms, max = 0 ms\n";
  EXPECT_EQ(imported(bare).transfers, "excluded");
  EXPECT_EQ(imported("Throughput: 400 qps\n").transfers, std::nullopt);
  EXPECT_EQ(imported("Throughput: 400 qps\n").cuda_graph, std::nullopt);
}

TEST(TrtexecImport, AStatementThatTheTimesContradictIsReported) {
  std::string text = LogText{}.text();
  text.replace(text.find("Data transfers: Enabled"), 23, "Data transfers: Disabled");
  const BenchRun run = imported(text);
  EXPECT_EQ(run.imported->consistent, false);
  EXPECT_NE(unfit_for_verdict(run).find("transfers are off, but copying inputs took up to 0.3 ms"), std::string::npos)
      << unfit_for_verdict(run);
  EXPECT_EQ(imported(LogText{.status = "FAILED"}.text()).imported->consistent, false);
}

TEST(TrtexecImport, PrecisionIsWhatTheBuilderWasAllowed) {
  EXPECT_EQ(imported(LogText{.precision = "FP32+FP16+INT8"}.text()).precision, "fp16+int8");
  auto precision = [](const char* version, const char* flags) {
    return imported(LogText{.version = version,
                            .command = concat("trtexec --onnx=m.onnx ", std::string_view(flags)),
                            .options = false}
                        .text())
        .precision;
  };
  EXPECT_EQ(precision("8601", ""), "fp32");
  EXPECT_EQ(precision("8601", "--fp16"), "fp16");
  EXPECT_EQ(precision("8601", "--int8 --fp16"), "fp16+int8");
  EXPECT_EQ(precision("100900", "--best"), "best");
  EXPECT_EQ(precision("100900", "--stronglyTyped"), std::nullopt);
  EXPECT_EQ(precision("110000", ""), std::nullopt);
  EXPECT_EQ(imported(LogText{.version = "", .precision = "Strongly Typed"}.text()).precision, std::nullopt);
  const BenchRun loaded = imported(LogText{.command = "trtexec --loadEngine=net.engine", .options = false}.text());
  EXPECT_EQ(loaded.model, "net.engine");
  EXPECT_EQ(loaded.precision, std::nullopt);
}

TEST(TrtexecImport, ItemsPerSecondNeedTheBatchAndAnImplicitBatchIsCountedByTheLog) {
  const BenchRun implicit = imported(LogText{.version = "8201",
                                             .command = "trtexec --deploy=a.prototxt --output=prob --batch=4",
                                             .queries = false,
                                             .batch = "4"}
                                         .text());
  EXPECT_EQ(implicit.batch, 4);
  EXPECT_EQ(implicit.throughput_per_s, 400);
  EXPECT_EQ(imported(LogText{.options = false}.text()).batch, 8);  // of --shapes
  const BenchRun unknown = imported(LogText{.command = "trtexec --onnx=net.onnx", .options = false}.text());
  EXPECT_EQ(unknown.batch, std::nullopt);
  EXPECT_EQ(unknown.throughput_per_s, std::nullopt);
  EXPECT_NE(unknown.notes.at("throughput_per_s").find("--set batch=N"), std::string::npos);
  EXPECT_EQ(imported(LogText{.command = "trtexec --onnx=net.onnx", .options = false}.text(), {{"batch", "2"}})
                .throughput_per_s,
            800);
}

TEST(TrtexecImport, Version7CountsNoQueriesOfAnExplicitBatchAndIsReadAllTheSame) {
  const BenchRun run = imported(old_log("0", "0"), {{"batch", "2"}});
  EXPECT_EQ(run.imported->throughput_qps, 0);
  EXPECT_EQ(run.samples, 100);  // total GPU time by the mean
  EXPECT_EQ(run.throughput_per_s, 800);
  EXPECT_EQ(run.imported->end_to_end->mean, 3.5);
  EXPECT_EQ(run.imported->h2d, std::nullopt);
  EXPECT_EQ(run.imported->consistent, true);
  EXPECT_EQ(run.transfers, "included");
}

TEST(TrtexecImport, WhatTheUserKnowsFillsGapsAndMayNotContradictTheLog) {
  const BenchRun run = imported("Throughput: 8 qps\n", {{"batch", "32"},
                                                        {"precision", "fp16"},
                                                        {"device_name", "T4"},
                                                        {"transfers", "excluded"},
                                                        {"cuda_graph", "true"},
                                                        {"model", "m.onnx"},
                                                        {"device", "cuda:1"}});
  EXPECT_EQ(run.batch, 32);
  EXPECT_EQ(run.precision, "fp16");
  EXPECT_EQ(run.imported->device_name, "T4");
  EXPECT_EQ(run.transfers, "excluded");
  EXPECT_EQ(run.cuda_graph, true);
  EXPECT_EQ(run.device, "cuda:1");
  EXPECT_EQ(run.throughput_per_s, 256);
  EXPECT_EQ(run.notes.at("batch"), "given by the user");
  const auto refused = [](const char* key, const char* value, const char* part) {
    const Error error = error_of({{"x.log", LogText{}.text()}}, {{key, value}});
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
  };
  refused("precision", "fp16", "the log says fp32");
  refused("transfers", "excluded", "the log says included");
  refused("tensorrt_version", "9.0", "the log says 8.6.1");
  refused("batch", "many", "a whole number");
  refused("cuda_graph", "maybe", "true or false");
  refused("bach", "8", "there is no such key");
}

TEST(TrtexecImport, RunsWithoutAMeasurementAreNamedWithTheirReason) {
  const std::string failed =
      "&&&& RUNNING TensorRT.trtexec [TensorRT v110000] # trtexec --onnx=a.onnx --fp16\n[11/14/2025-09:01:02] [E] "
      "Unknown option: --fp16\n"
      "&&&& FAILED TensorRT.trtexec [TensorRT v110000] # trtexec --onnx=a.onnx --fp16\n";
  Error error = error_of({{"a.log", failed}});
  EXPECT_EQ(error.kind(), ErrorKind::bad_file);
  EXPECT_STREQ(error.what(), "a.log: trtexec failed: Unknown option: --fp16");
  // The tail of a log alone, whose cause goes on over lines without a stamp.
  const std::string tail =
      "[11/14/2025-09:01:02] [E] [TRT] ModelImporter.cpp:951: --- End node ---\n[11/14/2025-09:01:02] [E] [TRT] "
      "ModelImporter.cpp:954: ERROR: In function parseNode:\n[6] Invalid Node - /Tile\n"
      "[11/14/2025-09:01:02] [E] Failed to parse onnx file\n[11/14/2025-09:01:02] [E] Engine set up failed\n&&&& "
      "FAILED TensorRT.trtexec [TensorRT v100300] # trtexec --onnx=a.onnx\n";
  EXPECT_STREQ(
      error_of({{"a.log", tail}}).what(),
      "a.log: trtexec failed: [TRT] ModelImporter.cpp:954: ERROR: In function parseNode: [6] Invalid Node - /Tile");
  const TrtexecImport both = import_trtexec({{"a.log", failed + LogText{}.text()}});
  EXPECT_EQ(both.runs.size(), 1u);
  EXPECT_EQ(both.runs[0].imported->source, "trtexec log a.log, run 2");
  EXPECT_EQ(both.left_out, std::vector<std::string>{"a.log, run 1: trtexec failed: Unknown option: --fp16"});
  EXPECT_STREQ(error_of({{"a.log", "&&&& RUNNING TensorRT.trtexec # trtexec --onnx=a.onnx\n"}}).what(),
               "a.log: the log ends before the performance summary");
  EXPECT_STREQ(error_of({{"a.log", "&&&& PASSED TensorRT.trtexec # trtexec --onnx=a.onnx --skipInference\n"}}).what(),
               "a.log: the engine was built but not measured: no performance summary");
  EXPECT_STREQ(error_of({{"a.log", " \n"}}).what(), "a.log: the log is empty");
  EXPECT_NE(std::string_view(error_of({{"a.log", "{\"schema\": \"temper.result/1\"}"}}).what())
                .find("no output of trtexec is in it"),
            std::string_view::npos);
}

std::string times_of(int count, int warmup = 0) {
  std::string text = "[";
  for (int i = -warmup; i < count; ++i) {
    // GPU times 1.95 … 2.05 with median 2; latencies 0.375 more.
    const double gpu = i < 0 ? 9 : 1.95 + 0.1 * ((i * 37) % count) / (count - 1);
    text += concat(
        i == -warmup ? "" : ",\n", R"({"startEnqMs" : )", i + 100, R"(, "endEnqMs" : )", i + 100.0625,
        R"(, "startH2dMs" : 1, "endH2dMs" : 1, "startComputeMs" : 1, "endComputeMs" : 3, "startD2hMs" : 3, "endD2hMs" : 3, "h2dMs" : 0.25, "computeMs" : )",
        gpu, R"(, "d2hMs" : 0.125, "latencyMs" : )", gpu + 0.375, "}");
  }
  return text + "]\n";
}

TEST(TrtexecImport, ExportedTimesJoinTheirRunAsSamples) {
  const std::string log = LogText{.command = "trtexec --onnx=net.onnx --exportTimes=out/times.json"}.text();
  const BenchRun run = imported({{"x.log", log}, {"here/times.json", times_of(100)}});
  ASSERT_TRUE(run.samples_ms);
  EXPECT_EQ(run.samples_ms->size(), 100u);
  EXPECT_EQ(run.samples, 100);
  EXPECT_TRUE(run.latency.stddev);
  ASSERT_TRUE(run.latency.median_ci95);
  EXPECT_LT(run.latency.median_ci95->low, 2.375);
  EXPECT_EQ(run.latency.max, 2.5);  // as the text has it
  EXPECT_EQ(run.notes.at("latency_ms.p99"), "max of 100");
  EXPECT_TRUE(run.imported->gpu->median_ci95);
  EXPECT_TRUE(run.imported->consistent.value());
  // Exports up to 8.4 hold the warm-up.
  const BenchRun old =
      imported({{"x.log", LogText{.version = "8401", .percentiles = "99"}.text()}, {"t.json", times_of(100, 5)}});
  EXPECT_EQ(old.samples_ms->size(), 100u);
  EXPECT_LT(*std::max_element(old.samples_ms->begin(), old.samples_ms->end()), 3);
  EXPECT_EQ(old.notes.at("samples_ms"), "without the 5 queries of the warm-up");
  EXPECT_TRUE(old.latency.p90);  // the text has none, and the samples are enough
  const BenchRun alone = imported({{"t.json", times_of(500)}}, {{"batch", "4"}});
  EXPECT_EQ(alone.samples, 500);
  EXPECT_TRUE(alone.latency.p99);
  EXPECT_EQ(alone.transfers, "included");
  EXPECT_EQ(alone.throughput_per_s, std::nullopt);
  EXPECT_EQ(alone.imported->enqueue->median, 0.0625);
}

TEST(TrtexecImport, TimesOfAnotherRunAreRefused) {
  const std::string log = LogText{}.text();
  EXPECT_NE(
      std::string(error_of({{"x.log", log}, {"t.json", times_of(90)}}).what()).find("90 queries, but the log says 100"),
      std::string::npos);
  EXPECT_NE(std::string(error_of({{"x.log", log}, {"t.json", times_of(101)}}).what()).find("different runs"),
            std::string::npos);
  std::string other = times_of(100);
  for (size_t at = 0; (at = other.find("\"latencyMs\" : 2.", at)) != std::string::npos; ++at)
    other.replace(at, 16, "\"latencyMs\" : 3.");
  EXPECT_NE(std::string(error_of({{"x.log", log}, {"t.json", other}}).what()).find("the median latency is"),
            std::string::npos);
  EXPECT_NE(std::string(error_of({{"x.log", log + log}, {"t.json", times_of(100)}}).what())
                .find("no run of the logs says --exportTimes=t.json"),
            std::string::npos);
  for (const char* text : {"[]", "[{}]", "[{\"latencyMs\": 1, \"computeMs\": 1}]",
                           "[{\"latencyMs\": -1, \"computeMs\": 1, \"h2dMs\": 0, \"d2hMs\": 0}]",
                           "[{\"latencyMs\": \"1\"", "[{\"count\": 3}]"})
    EXPECT_EQ(error_of({{"t.json", text}}).kind(), ErrorKind::bad_file) << text;
}

}  // namespace
}  // namespace temper
