// SPDX-License-Identifier: Apache-2.0
// study, and int8 under a budget, on a real model and on one with a layer that int8 destroys.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "../paths.h"
#include "backends/backend.h"
#include "bench/results.h"
#include "program.h"
#include "quantize/ranges.h"

namespace temper {
namespace {

// digits_cnn and 599 digits. odd.onnx: the first of two products gets a column of x that is a thousand times as large
// as the others and multiplies it by zero, so that one scale for all of x drowns what counts; the second product is
// harmless.
std::string samples() {
  const std::string folder = test_folder();
  run_python(folder, R"(
import sys, onnx
from onnx import helper as h, TensorProto as T, numpy_helper
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
_, _, images, labels = digits_data.load()
np.savez('digits.npz', image=images, labels=labels)
random = np.random.RandomState(0)
A, B = random.randn(8, 16).astype('f4'), random.randn(16, 4).astype('f4')
A[0] = 0
nodes = [h.make_node('MatMul', ['x', 'A'], ['a'], name='delicate'), h.make_node('Relu', ['a'], ['r']), h.make_node('MatMul', ['r', 'B'], ['y'], name='harmless')]
g = h.make_graph(nodes, 'g', [h.make_tensor_value_info('x', T.FLOAT, ['batch', 8])], [h.make_tensor_value_info('y', T.FLOAT, ['batch', 4])], [numpy_helper.from_array(A, 'A'), numpy_helper.from_array(B, 'B')])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'odd.onnx')
x = random.randn(200, 8).astype('f4'); x[:, 0] *= 1000
np.save('x.npy', x); np.save('few.npy', x[:1]); np.save('same.npy', np.repeat(x[:1], 8, 0))
)");
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  return folder;
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_file(path)); }

TEST(StudyVerb, DigitsInInt8KeepTheBudgetOnDataThatWasNotCalibratedOn) {
  const std::string folder = samples();
  const Outcome done =
      temper(folder, "study m.onnx --data digits.npz --max-drop 1% --batch 16 --quick --duration 200ms -o out");
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* part : {"verdict:", "McNemar", "within", "top1 drop with every layer in int8"})
    EXPECT_CONTAINS(done.out, part);
  const auto json = read_json(folder + "out/study.json");
  EXPECT_EQ(json.at("calibration_samples"), 299);
  EXPECT_EQ(json.at("evaluation_samples"), 300);
  EXPECT_EQ(json.at("metric"), "top1");
  ASSERT_EQ(json.at("precisions").size(), 2u);
  const auto &fp32 = json.at("precisions")[0], &int8 = json.at("precisions")[1];
  EXPECT_EQ(fp32.at("precision"), "fp32");
  EXPECT_GE(fp32.at("answers").at("top1").at("rate").get<double>(), 0.96);
  EXPECT_GE(int8.at("answers").at("agreement").at("rate").get<double>(), 0.98);
  EXPECT_LE(int8.at("drop").get<double>(), 0.01);
  EXPECT_LT(int8.at("plan_bytes").get<int64_t>(), fp32.at("plan_bytes").get<int64_t>());
  EXPECT_LT(int8.at("memory_bytes").get<int64_t>(), fp32.at("memory_bytes").get<int64_t>());
  EXPECT_GT(int8.at("latency_ms").get<double>(), 0);
  EXPECT_EQ(int8.at("speed").at("ci99").size(), 2u);
  EXPECT_EQ(load_ranges(folder + "out/ranges.json").samples, 299);
  EXPECT_CONTAINS(read_file(folder + "out/study.md"), "| int8");
  // The plan refuses what it was calibrated on: a part of the same file.
  EXPECT_CONTAINS(temper(folder, "evaluate out/m.int8.plan --data digits.npz").err, "has the same content");
}

TEST(StudyVerb, AnInterruptedStudyGoesOnWhereItStopped) {
  const std::string folder = samples();
  const std::string study = "study m.onnx --data digits.npz --batch 8 --quick --duration 100ms --samples 120 -o out";
  const Outcome first = temper(folder, study);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err.find("done before"), std::string::npos) << first.err;
  const Outcome second = temper(folder, study);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
  for (const char* step : {"calibrate", "build-fp32", "build-int8", "evaluate-fp32,int8", "speed-fp32,int8"})
    EXPECT_CONTAINS(second.err, concat(std::string_view(step), ": done before"));

  // A plan that is gone or another one is built again, and nothing else; so is a step whose file is damaged.
  run_python(folder, R"(
import json
open('out/m.int8.plan', 'ab').write(b'x')
open('out/steps/speed-fp32,int8.json', 'r+').truncate(40)
def change(name, edit):
    path = f'out/steps/{name}.json'
    step = json.load(open(path))
    edit(step)
    json.dump(step, open(path, 'w'))
change('calibrate', lambda step: step.update(key=7))               # of another type
change('evaluate-fp32,int8', lambda step: step.update(result=[]))  # of another shape
)");
  const Outcome third = temper(folder, study);
  ASSERT_EQ(third.code, 0) << third.err;
  for (const char* step : {"build-int8", "speed-fp32,int8", "calibrate", "evaluate-fp32,int8"})
    EXPECT_EQ(third.err.find(concat(std::string_view(step), ": done before")), std::string::npos) << third.err;
  EXPECT_CONTAINS(third.err, "build-fp32: done before");
  // Other data, other results.
  const Outcome other = temper(folder, study + " --seed 5");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.err.find("done before"), std::string::npos) << other.err;
  EXPECT_EQ(load_result(folder + "out/result.json").runs.size(), 2u);
}

TEST(StudyVerb, ALayerThatInt8DestroysIsRaisedAndTheBudgetHolds) {
  const std::string folder = samples();
  const std::string how = "study odd.onnx --data x.npy --metric snr --method minmax --quick --duration 100ms ";
  const Outcome plain = temper(folder, how + "-o plain");
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_GT(read_json(folder + "plain/study.json").at("precisions")[1].at("drop").get<double>(), 0.1);

  const Outcome mixed = temper(folder, how + "--max-drop 1% --raise-to fp32 -o one");
  ASSERT_EQ(mixed.code, 0) << mixed.err << mixed.out;
  const auto one = read_json(folder + "one/study.json");
  EXPECT_LE(one.at("precisions")[1].at("drop").get<double>(), 0.01);
  const auto& layers = one.at("mixed").at("layers");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].at("layer"), "delicate");
  EXPECT_EQ(layers[0].at("decision"), "fp32");
  EXPECT_EQ(layers[1].at("decision"), "int8");
  EXPECT_GT(layers[0].at("drop").get<double>(), layers[1].at("drop").get<double>());
  EXPECT_FALSE(layers[1].at("saves_ms").is_null());  // every CPU has a kernel for it in INT8

  ASSERT_EQ(temper(folder, how + "--max-drop 1% --raise-to fp32 -o two --device cpu,cpu").code, 0)
      << "candidates are judged on both";
  auto again = read_json(folder + "two/study.json").at("mixed"), first = one.at("mixed");
  for (auto* part : {&again, &first})
    for (auto& layer : (*part)["layers"]) layer.erase("saves_ms");  // measured
  EXPECT_EQ(again, first);

  const Outcome impossible = temper(folder, how + "--max-drop 0% --raise-to fp32 -o none");
  EXPECT_TRUE(impossible.code == 0 || impossible.code == 1)
      << impossible.err;  // all in fp32: rounding may be all that is left
  const auto none = read_json(folder + "none/study.json");
  EXPECT_EQ(impossible.code == 1, none.at("precisions")[1].at("drop").get<double>() > 0);
}

TEST(BuildVerb, ABudgetRaisesTheSameLayerAndRecordsIt) {
  const std::string folder = samples();
  const Outcome built = temper(folder,
                               "build odd.onnx -o odd.plan --precision int8 --data x.npy --max-drop 1% --metric snr "
                               "--method minmax --raise-to fp32 --quick --json");
  ASSERT_EQ(built.code, 0) << built.err;
  const auto json = nlohmann::json::parse(built.out);
  EXPECT_EQ(json.at("layers")[0].at("layer"), "delicate");
  EXPECT_EQ(json.at("layers")[0].at("decision"), "fp32");
  EXPECT_EQ(json.at("holds"), true);
  EXPECT_EQ(load_ranges(folder + "odd.plan.ranges.json").samples, 200);
  const Outcome shown = temper(folder, "inspect odd.plan");
  EXPECT_CONTAINS(shown.out, "--keep-fp32 delicate");
  // In bf16 where the CPU computes it, and the command in the plan builds the same again.
  const bool bf16 = open_device("cpu").avx512_bf16;
  ASSERT_EQ(temper(folder,
                   "build odd.onnx -o default.plan --precision int8 --calibration odd.plan.ranges.json --data x.npy "
                   "--max-drop 1% --metric snr --quick")
                .code,
            0);
  EXPECT_CONTAINS(temper(folder, "inspect default.plan").out, bf16 ? "--keep-bf16 delicate" : "--keep-fp32 delicate");
  const Outcome by_name = temper(
      folder,
      "build odd.onnx -o named.plan --precision int8 --calibration odd.plan.ranges.json --keep-bf16 delicate --quick");
  EXPECT_EQ(by_name.code, bf16 ? 0 : 4) << by_name.err;
  if (bf16) {
    EXPECT_CONTAINS(by_name.out, "kept in bf16 as asked: delicate (matmul)");
    EXPECT_CONTAINS(temper(folder, "inspect named.plan --graph").out, "bf16");
  } else {
    EXPECT_CONTAINS(by_name.err, "delicate");
  }
  const auto refused = [&](const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "build odd.onnx -o no.plan " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused("--precision int8 --data x.npy", "go together");
  refused("--data x.npy --max-drop 1%", "--precision int8");
  refused("--precision int8 --data x.npy --max-drop 1", "like 0.5%");
  refused("--precision int8 --data x.npy --max-drop 1% --metric top1", "right answers");
  refused("--precision int8 --data x.npy --max-drop 1% --raise-to int8", "--raise-to is bf16, fp16 or fp32");
}

TEST(StudyVerb, APrecisionThatTheMachineLacksIsLeftOutWithANote) {
  const std::string folder = samples();
  const Outcome done = temper(
      folder,
      "study m.onnx --data digits.npz --samples 60 --precision fp32,tf32,fp16,int8 --quick --duration 50ms -o out");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_CONTAINS(done.err, "warning: tf32 is left out: ");
  EXPECT_CONTAINS(done.err, "warning: fp16 is left out: ");
  EXPECT_CONTAINS(done.err, open_device("cpu").avx512_bf16 ? "use --precision bf16" : "use --precision fp32");
  const auto json = read_json(folder + "out/study.json");
  ASSERT_EQ(json.at("precisions").size(), 2u);
  EXPECT_EQ(json.at("precisions")[1].at("precision"), "int8");
  EXPECT_CONTAINS(json.at("notes").dump(), "fp16 is left out");
  EXPECT_CONTAINS(json.at("notes").dump(), "tf32 is left out");
  // README's own.
  const Outcome readme = temper(folder,
                                "study m.onnx --data digits.npz --samples 60 --precision fp32,bf16,int8,int8+bf16 "
                                "--max-drop 50% --quick --duration 50ms -o four");
  ASSERT_EQ(readme.code, 0) << readme.err;
  const bool bf16 = open_device("cpu").avx512_bf16;
  const auto four = read_json(folder + "four/study.json");
  EXPECT_EQ(four.at("precisions").size(), bf16 ? 4u : 2u);
  EXPECT_EQ(four.at("mixed").at("precision"), "int8");
  ASSERT_EQ(four.at("other_searches").size(), bf16 ? 2u : 0u);
  if (bf16) {
    EXPECT_EQ(four.at("other_searches")[0].at("precision"), "int8+bf16");
    EXPECT_EQ(four.at("other_searches")[1].at("precision"), "bf16");
    EXPECT_CONTAINS(four.at("precisions")[3].at("command").dump(), "--precision int8+bf16 --calibration");
  }
}

TEST(StudyVerb, LayersOf16BitsAreRaisedForTheBudgetToo) {
  if (!open_device("cpu").avx512_bf16) GTEST_SKIP() << "this CPU has no BF16";
  const std::string folder = samples();
  const std::string how =
      "study odd.onnx --data x.npy --metric snr --precision fp32,bf16 --quick --duration 50ms --max-drop ";
  // Noise of BF16 is about a millionth of the signal.
  const Outcome wide = temper(folder, how + "1% -o wide"), narrow = temper(folder, how + "0.00001% -o narrow");
  ASSERT_EQ(wide.code, 0) << wide.err;
  ASSERT_EQ(narrow.code, 0) << narrow.err;
  const auto decided = [&](const std::string& study) {
    const auto mixed = read_json(folder + study + "/study.json").at("mixed");
    EXPECT_EQ(mixed.at("precision"), "bf16");
    std::set<std::string> all;
    for (const auto& layer : mixed.at("layers")) all.insert(layer.at("decision").get<std::string>());
    return all;
  };
  EXPECT_FALSE(decided("wide").contains("fp32"));
  EXPECT_TRUE(decided("narrow").contains("fp32"));
  EXPECT_LE(read_json(folder + "narrow/study.json").at("precisions")[1].at("drop").get<double>(), 1e-7);
}

// Ranges that cut off so much that most classes stay and the outputs are wrecked.
TEST(StudyVerb, AnswersThatAreFarGetNoVerdictThoughTheirClassesStay) {
  const std::string folder = samples();
  const Outcome done = temper(folder,
                              "study m.onnx --data digits.npz --samples 200 --method percentile:92 --batch 8 --quick "
                              "--duration 50ms -o far --quiet");
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* part : {"warning: int8: the answers are far from fp32's: SNR ", "where 17 dB and 0.99 are asked for",
                           "the tensor 'relu1': percentile:92 clips"})
    EXPECT_CONTAINS(done.err, part);
  for (const char* part : {"FAR", "verdict: fp32", "int8 is far from fp32's answers"}) EXPECT_CONTAINS(done.out, part);
  const auto int8 = read_json(folder + "far/study.json").at("precisions")[1];
  EXPECT_EQ(int8.at("holds"), false);
  EXPECT_TRUE(int8.at("over_budget").is_null());
  // A budget that the classes keep raises layers until the outputs are near.
  const Outcome built = temper(folder,
                               "build m.onnx -o m.plan --precision int8 --data digits.npz --samples 100 --method "
                               "percentile:92 --max-drop 60% --raise-to fp32 --quick --json");
  ASSERT_EQ(built.code, 0) << built.err;
  const auto json = nlohmann::json::parse(built.out);
  EXPECT_LE(json.at("all_int8").at("drop").get<double>(), 0.6);
  EXPECT_EQ(json.at("all_int8").at("near"), false);
  EXPECT_EQ(json.at("result").at("near"), true);
  EXPECT_GE(json.at("result").at("snr_db").get<double>(), 17);
  EXPECT_EQ(json.at("holds"), true);
}

TEST(StudyVerb, WrongUseEndsWithOneMessage) {
  const std::string folder = samples();
  const auto refused = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "study odd.onnx -o out " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused(2, "--data few.npy", "cannot be split");
  refused(2, "--data same.npy", "every sample to evaluate on");
  refused(4, "--data x.npy --precision fp32,int3", "int3");
  refused(4, "--data x.npy --precision fp16", "nothing else was asked for");
  refused(2, "--data x.npy --precision fp32,,int8", "needs names");
  refused(2, "--data x.npy --max-drop 101%", "like 0.5%");
  refused(2, "--data x.npy --metric bleu", "there are top1");
  refused(2, "--data x.npy --raise-to fp32", "give --max-drop");
  refused(2, "--data x.npy --precision fp32 --max-drop 1% --raise-to bf16", "belongs to --precision int8 and fp8");
  refused(2, "--data x.npy --shapes other=1x8", "which the model does not have");
  refused(2, "--data x.npy --shapes x=4x8 --batch 2", "--batch 2 contradicts --shapes, which says a batch of 4");
  refused(2, "--data x.npy --buckets 1,8", "a study is of one batch; leave --buckets out");
  refused(2, "--data x.npy --config nofile.toml", "--config is of a file of models, and a model is named");
  refused(2, "--data x.npy --only digits", "--only is of a file of models, and a model is named");
  refused(3, "--data none.npy", "none.npy");
}

}  // namespace
}  // namespace temper
