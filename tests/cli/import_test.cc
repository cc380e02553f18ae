// SPDX-License-Identifier: Apache-2.0
// import as a user calls it: logs to a result file, and old command lines explained.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../interop/logs.h"
#include "bench/results.h"
#include "program.h"

namespace temper {
namespace {

TEST(ImportVerb, LogsBecomeOneResultFileThatLoads) {
  const std::string folder = test_folder();
  write_file_atomically(folder + "a.log", fixture("trt8601_mnist_summary.log"));
  write_file_atomically(folder + "b.log", LogText{}.text() + old_log());
  const Outcome outcome = temper(folder, "import trtexec a.log b.log -o r.json --set device_name=T4");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_CONTAINS(outcome.err, "the log says NVIDIA A100-SXM4-80GB");
  const Outcome good = temper(folder, "import trtexec a.log b.log -o r.json");
  ASSERT_EQ(good.code, 0) << good.err;
  EXPECT_CONTAINS(good.out, "/tmp/mnist-12.onnx");
  EXPECT_CONTAINS(good.out, "2.500 (max of 100)");
  EXPECT_CONTAINS(good.err, "coefficient of variance = 29.0605%");
  const BenchResult result = load_result(folder + "r.json");
  ASSERT_EQ(result.runs.size(), 3u);
  EXPECT_EQ(result.runs[0].latency.median, 0.0246582);
  EXPECT_EQ(result.runs[2].imported->end_to_end->median, 3.4);
  EXPECT_EQ(result.environment.cpu_model, "");  // this machine ran nothing
  const Outcome json = temper(folder, "import trtexec a.log --json --set batch=32,precision=fp32");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out).at("runs")[0].at("throughput_per_s"), 40624.2 * 32);
}

TEST(ImportVerb, ALogThatContradictsItselfIsImportedWithAWarningAndFailsTheCheck) {
  const std::string folder = test_folder();
  std::string text = LogText{}.text();
  text.replace(text.find("Throughput: 400"), 15, "Throughput: 900");
  write_file_atomically(folder + "x.log", text);
  const Outcome outcome = temper(folder, "import trtexec x.log -o r.json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_CONTAINS(outcome.err, "its numbers contradict each other, so no verdict may rest on them");
  EXPECT_CONTAINS(outcome.err, "the throughput (900 qps) is not 100 queries in 0.25 s");
  EXPECT_NE(unfit_for_verdict(load_result(folder + "r.json").runs[0]), "");
}

TEST(ImportVerb, ImportedRunsAreComparedAndGatedLikeOursUnderTheSameRefusals) {
  const std::string folder = test_folder();
  const auto import = [&](const std::string& name, LogText log) {
    write_file_atomically(folder + name + ".log", log.text());
    ASSERT_EQ(temper(folder, concat("import trtexec ", name, ".log -o ", name, ".json")).code, 0);
  };
  import("a", LogText{});
  import("again", LogText{});
  const Outcome same = temper(folder, "compare a.json again.json");
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_CONTAINS(same.out, "the summary: its minimum and");
  EXPECT_CONTAINS(same.err, "the hashes are unknown on both sides");
  EXPECT_EQ(temper(folder, "gate a.json again.json --max-slowdown 100%").code, 0);

  // 11.0 turned the defaults of copies and CUDA graphs round: its numbers measure something else.
  LogText newer;
  newer.version = "110000";
  newer.transfers = false;
  newer.cuda_graph = "Enabled";
  import("new", newer);
  const Outcome unlike = temper(folder, "compare a.json new.json");
  EXPECT_EQ(unlike.code, 4) << unlike.out << unlike.err;
  EXPECT_CONTAINS(unlike.err, "transfers: included and excluded; CUDA graph: no and yes");

  // One of the two contradicts itself: no verdict, whatever the numbers are.
  std::string text = LogText{}.text();
  text.replace(text.find("Throughput: 400"), 15, "Throughput: 900");
  write_file_atomically(folder + "x.log", text);
  EXPECT_EQ(temper(folder, "import trtexec x.log -o x.json").code, 1);
  const Outcome unsure = temper(folder, "gate a.json x.json --strict");
  EXPECT_EQ(unsure.code, 1) << unsure.out;
  EXPECT_CONTAINS(unsure.err, "contradict each other");
  EXPECT_EQ(temper(folder, "gate a.json x.json").code, 0);
}

TEST(ImportVerb, BadInputEndsInOneLineThatSaysWhatToDo) {
  const std::string folder = test_folder();
  write_file_atomically(folder + "empty.log", "");
  write_file_atomically(folder + "failed.log",
                        "&&&& RUNNING TensorRT.trtexec # trtexec --fp16\n[11/14/2025-09:01:02] [E] Unknown option: "
                        "--fp16\n&&&& FAILED TensorRT.trtexec # trtexec --fp16\n");
  write_file_atomically(folder + "other.log", "hello\n");
  const auto refused = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "import " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(3, "trtexec empty.log", "empty.log: the log is empty");
  refused(3, "trtexec failed.log", "failed.log: trtexec failed: Unknown option: --fp16");
  refused(3, "trtexec other.log", "no output of trtexec is in it");
  refused(3, "trtexec missing.log", "missing.log");
  refused(2, "trtexec", "give the logs to import");
  refused(2, "polygraphy x.log", "polygraphy");
  refused(2, "trtexec failed.log --set batch", "KEY=VALUE");
  refused(2, "trtexec failed.log --to 11", "--command");
  refused(2, "trtexec --command 'trtexec --onnx=a.onnx' --to 9", "the flags of trtexec 9 are not known");
  refused(2, "trtexec --command trtexec", "holds no flags");
  refused(2, "trtexec failed.log --command 'trtexec --onnx=a.onnx'", "belong to importing");
}

TEST(ImportVerb, OldCommandsAreExplainedAndSaidForAnotherVersion) {
  const std::string folder = test_folder();
  const Outcome explained = temper(folder, "import trtexec --command 'trtexec --onnx=net.onnx --int8 --workspace=64'");
  ASSERT_EQ(explained.code, 0) << explained.err;
  EXPECT_CONTAINS(explained.out, "scratch memory that tactics may use, in MiB");
  EXPECT_CONTAINS(explained.out,
                  "  temper build net.onnx -o net.plan --device cuda:0 --precision int8 --calibration ranges.json "
                  "--workspace 64MiB\n");
  const Outcome there = temper(folder, "import trtexec --command 'trtexec --onnx=net.onnx --fp16' --to 11 --json");
  ASSERT_EQ(there.code, 0) << there.err;
  const auto json = nlohmann::json::parse(there.out);
  EXPECT_EQ(json.at("command"), "trtexec --onnx=net.onnx --includeDataTransfers --noCudaGraph --noSpinWait");
  EXPECT_EQ(json.at("lost")[0], "--fp16: gone since 11.0; in its place: a model whose own types are FP16");
}

}  // namespace
}  // namespace temper
