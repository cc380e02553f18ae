// SPDX-License-Identifier: Apache-2.0
// compare as a user calls it: two plans, their speed and their answers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/results.h"
#include "program.h"

namespace temper {
namespace {

// net.onnx: a product of 256 x 256; twice.onnx: the same answers by way of sixteen of them.
constexpr const char* kModelsToCompare = R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
def save(name, layers, last='y', width=256):
    nodes = [h.make_node('MatMul', ['x' if i == 0 else f'v{i}', 'W'], [last if i == layers - 1 else f'v{i + 1}']) for i in range(layers)]
    g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['batch', width])], [h.make_tensor_value_info(last, T.FLOAT, ['batch', width])], [numpy_helper.from_array(np.eye(width, dtype='f4'), 'W')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('once.onnx', 1); save('often.onnx', 16); save('other.onnx', 1, 'z'); save('narrow.onnx', 1, 'y', 8)
np.savez('x.npz', x=np.random.RandomState(0).rand(40, 256).astype('f4'))
)";

std::string plans() {
  const std::string folder = test_folder();
  run_python(folder, kModelsToCompare);
  for (const char* name : {"once", "often", "other", "narrow"})
    EXPECT_EQ(temper(folder, concat("build ", std::string_view(name), ".onnx -o ", std::string_view(name),
                                    ".plan --quick --threads 1 --shapes ",
                                    std::string_view(name) == "narrow" ? "1x8:16x8:32x8" : "1x256:16x256:32x256"))
                  .code,
              0);
  return folder;
}

TEST(CompareVerb, TheSlowerPlanWithTheSameAnswersIsNamedAndFailsTheCheck) {
  const std::string folder = plans();
  // On a machine that others keep busy a short measurement may be UNSURE: then it gets more time. What stays UNSURE is
  // no failure; that the clear cases are decided is tested on a clock of its own (tests/measure/paired_test.cc).
  const auto compare = [&](const std::string& arguments) {
    Outcome outcome;
    for (const char* duration : {"300ms", "2s", "10s"}) {
      outcome = temper(folder, concat("compare ", arguments, " --duration ", std::string_view(duration)));
      if (outcome.out.find("UNSURE") == std::string::npos) break;
    }
    return outcome;
  };
  const Outcome slower = compare("once.plan often.plan --force --data x.npz --json");
  ASSERT_LE(slower.code, 1) << slower.err << slower.out;
  const auto json = nlohmann::json::parse(slower.out);
  const auto& second = json.at("plans")[1];
  const auto verdict = second.at("speed").at("verdict");
  EXPECT_TRUE(verdict == "SLOWER" || verdict == "UNSURE") << slower.out;
  EXPECT_EQ(slower.code, verdict == "SLOWER" ? 1 : 0);
  if (verdict == "SLOWER") { EXPECT_LT(second.at("speed").at("ci99")[1].get<double>(), 1); }
  EXPECT_CONTAINS(second.at("forced").get<std::string>(), "model: ");
  EXPECT_EQ(json.at("batch"), 16);
  EXPECT_EQ(second.at("answers").at("agreement").at("same"), 40);
  EXPECT_EQ(second.at("answers").at("outputs")[0].at("max_difference"), 0);  // products with the identity are exact
  EXPECT_EQ(second.at("answers").at("outputs")[0].at("snr_db"), nullptr);
  const Outcome faster = compare("often.plan once.plan --force --batch 32");
  EXPECT_EQ(faster.code, 0) << faster.err;
  EXPECT_TRUE(faster.out.find("FASTER") != std::string::npos || faster.out.find("UNSURE") != std::string::npos)
      << faster.out;
  EXPECT_CONTAINS(faster.out, "batch 32");
  EXPECT_CONTAINS(faster.out, "[forced; model: ");
}

TEST(CompareVerb, WhatDoesNotCompareIsRefused) {
  const std::string folder = plans();
  ASSERT_EQ(temper(folder, "build once.onnx -o two.plan --quick --threads 2 --shapes 1x256:16x256:32x256").code, 0);
  const auto refused = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "compare " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(4, "once.plan two.plan", "threads: 1 and 2");
  refused(4, "once.plan often.plan", "model: once.onnx");
  refused(2, "once.plan narrow.plan --force", "was given the shape [16,256]");
  refused(2, "once.plan once.onnx", "is neither a plan nor a result");
  refused(2, "once.plan other.plan --force --data x.npz --duration 100ms", "outputs of other names");
  refused(2, "once.plan often.plan --force --batch 64", "64");
  refused(3, "once.plan often.plan --force --data x.npz --memory-limit 1KiB", "--memory-limit");
  refused(2, "once.plan often.plan --memory-limit 1GiB", "--memory-limit requires --data");
}

TEST(CompareVerb, SeveralPlansAreTimedInOneRound) {
  const std::string folder = plans();
  const Outcome done = temper(folder, "compare once.plan once.plan often.plan --force --duration 200ms --json");
  ASSERT_LE(done.code, 1) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  ASSERT_EQ(json.at("plans").size(), 3u);
  EXPECT_EQ(json.at("plans")[1].at("speed").at("rounds"), json.at("plans")[2].at("speed").at("rounds"));
}

TEST(CompareVerb, ResultsAreComparedByTheirSamplesAndTheGateFailsOnlyBeyondItsLimit) {
  const std::string folder = plans();
  const auto bench = [&](const char* plan, const char* result) {
    ASSERT_EQ(temper(folder, concat("bench ", std::string_view(plan), ".plan --warmup 20 --iterations 300 --json ",
                                    std::string_view(result), ".json"))
                  .code,
              0);
  };
  bench("once", "a");
  bench("often", "b");
  EXPECT_EQ(temper(folder, "compare a.json b.json").code, 4);  // of other models
  const Outcome timed = temper(folder, "compare a.json b.json --duration 0.1s");
  EXPECT_EQ(timed.code, 2);
  EXPECT_CONTAINS(timed.err, "--duration are for plans");
  const Outcome forced = temper(folder, "compare a.json b.json --force");
  EXPECT_CONTAINS(forced.out, "[forced; model: ");
  EXPECT_CONTAINS(forced.out, "not interleaved");
  const Outcome gate = temper(folder, "gate a.json b.json --force --json");
  const auto run = nlohmann::json::parse(gate.out).at("runs").at(0);
  // The files decide, whatever the machine did while they were made: a machine that changed meanwhile gets no verdict.
  const auto median_of = [&](const char* name) { return load_result(folder + name).runs.at(0).latency.median.value(); };
  const double slowdown = median_of("b.json") / median_of("a.json") - 1;
  EXPECT_NEAR(run.at("slowdown").get<double>(), slowdown, 0.2 * (1 + slowdown)) << gate.out;
  if (slowdown > 0.5) { EXPECT_NE(run.at("gate"), "PASS") << gate.out; }
  EXPECT_EQ(gate.code, run.at("gate") == "FAIL" ? 1 : 0);
  const Outcome back = temper(folder, "gate b.json a.json --force --max-slowdown 0% --json");
  EXPECT_EQ(back.code, nlohmann::json::parse(back.out).at("runs").at(0).at("gate") == "FAIL" ? 1 : 0) << back.err;
  const Outcome xml = temper(folder, "gate a.json b.json --force --junit gate.xml --annotations github");
  EXPECT_EQ(xml.code, gate.code) << xml.err;
  EXPECT_EQ(xml.out.find("::error title=") != std::string::npos, gate.code == 1) << xml.out;
  const std::string junit = read_file(folder + "/gate.xml");
  EXPECT_NE(junit.find(gate.code == 1 ? "failures=\"1\"" : "failures=\"0\""), std::string::npos) << junit;
  EXPECT_EQ(temper(folder, "gate a.json b.json --force --junit gate.xml").code, gate.code);  // its own kind
  EXPECT_EQ(temper(folder, "gate a.json b.json --junit a.json").code, 2);                    // what it reads
  const Outcome same = temper(folder, "gate a.json a.json --strict --max-slowdown 20% --json");
  EXPECT_NEAR(nlohmann::json::parse(same.out).at("runs").at(0).at("slowdown").get<double>(), 0, 1e-12);
}

TEST(CompareVerb, FilesThatAreNoResultsAreErrorsWithTheReason) {
  const std::string folder = test_folder();
  run_python(folder, R"(
open('empty.json', 'w').close()
open('other.json', 'w').write('{"schema": "temper.study/1"}')
open('cut.json', 'w').write('{"schema": "temper.result/1", "env')
)");
  for (const char* verb : {"compare", "gate"}) {
    const auto refused = [&](int code, const char* files, const char* part) {
      const Outcome outcome = temper(folder, concat(std::string_view(verb), " ", std::string_view(files)));
      EXPECT_EQ(outcome.code, code) << verb << " " << files << ": " << outcome.err;
      EXPECT_CONTAINS(outcome.err, part);
    };
    refused(3, "none.json none.json", "none.json");
    refused(3, "other.json other.json", "other.json: it is a study, no result");
    refused(3, "cut.json cut.json", "not JSON");
  }
  EXPECT_EQ(temper(folder, "gate empty.json empty.json").code, 3);
  EXPECT_EQ(temper(folder, "compare empty.json empty.json").code, 2);
  EXPECT_EQ(temper(folder, "gate other.json other.json --max-slowdown 3").code, 2);
}

TEST(GateVerb, AnnotationsArePrintedBesideAFileOfJsonAndRefusedBesideJsonItself) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --quiet").code, 0);
  ASSERT_EQ(temper(folder, "bench m.onnx --no-measure --threads 1 --iterations 5 --batch 1,4 --json two.json").code, 0);
  run_python(folder, R"(
import json
result = json.load(open('two.json'))
result['runs'].pop()
json.dump(result, open('one.json', 'w'))
)");
  const std::string gate = "gate two.json one.json --annotations github ";
  const Outcome beside = temper(folder, gate + "--json=gate.json");
  EXPECT_EQ(beside.code, 0) << beside.err;
  EXPECT_CONTAINS(beside.out, "::warning title=temper gate%3A one.json");
  EXPECT_EQ(beside.out.find('{'), std::string::npos) << beside.out;
  EXPECT_EQ(nlohmann::json::parse(read_file(folder + "gate.json")).at("baseline"), "two.json");
  for (const char* json : {"--json", "--json=-"}) {
    const Outcome refused = temper(folder, gate + json);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_CONTAINS(refused.err, "--annotations are lines of the log; --json=FILE leaves the output to them");
  }
}

}  // namespace
}  // namespace temper
