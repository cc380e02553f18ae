// SPDX-License-Identifier: Apache-2.0
// What stands between a wrong pipeline and a figure that looks right: guards of build, study, compare and evaluate, and
// the mark that noise leaves on every result.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

// digits_cnn as m.onnx, and the held-out digits: with labels, without, with labels in another order, with one NaN.
class Guards : public ::testing::Test {
 protected:
  Guards() : folder_(test_folder()) {
    run_python(folder_, R"(
import sys, onnx
from onnx import helper as h, TensorProto as T
sys.path.insert(0, ')" + paths::source_folder() +
                            R"(/python')
import digits_data
_, _, images, labels = digits_data.load()
images, labels = images[:200], labels[:200]
np.savez('good.npz', image=images, labels=labels); np.savez('plain.npz', image=images); np.savez('few.npz', image=images[:20], labels=labels[:20])
np.savez('shuffled.npz', image=images, labels=np.random.RandomState(0).permutation(labels))
np.savez('wrong.npz', image=np.zeros((9, 1, 9, 9), 'f4')); np.savez('double.npz', image=images.astype('f8')); np.savez('nothing.npz'); np.savez('mismatch.npz', image=images, labels=labels[:9])
images[150, 0, 3, 3] = np.nan; np.savez('nan.npz', image=images, labels=labels)
g = h.make_graph([h.make_node('Relu', ['image'], ['map'])], 'g', [h.make_tensor_value_info('image', T.FLOAT, ['batch', 1, 8, 8])], [h.make_tensor_value_info('map', T.FLOAT, ['batch', 1, 8, 8])])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'map.onnx')
)");
    EXPECT_EQ(run("zoo digits_cnn -o m.onnx").code, 0);
  }
  Outcome run(const std::string& arguments) { return temper(folder_, arguments); }
  void refused(int code, const std::string& arguments, const std::vector<std::string_view>& parts) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    for (std::string_view part : parts) EXPECT_CONTAINS(outcome.err, part);
    EXPECT_EQ(outcome.out, "") << arguments;
    for (const char* file : {"no.plan", "no"}) EXPECT_FALSE(file_exists(folder_ + file)) << arguments;
  }
  std::string folder_;
};

TEST_F(Guards, ABudgetByTop1OfAModelThatOnlyGuessesIsNoBudgetAndAStudyGoesOnWithAWarning) {
  refused(1, "build m.onnx -o no.plan --precision int8 --data shuffled.npz --max-drop 1% --no-measure",
          {"a model that does not guess", "--class-names", "--metric agreement"});
  const Outcome other =
      run("build m.onnx -o m.plan --precision int8 --data shuffled.npz --max-drop 5% --metric agreement --no-measure");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_CONTAINS(other.err, "guessing among 10 classes");
  const Outcome study = run("study m.onnx -o out --data shuffled.npz --max-drop 50% --quick --duration 50ms");
  EXPECT_EQ(study.code, 0) << study.err;
  EXPECT_CONTAINS(study.err, "guessing among 10 classes");
  EXPECT_CONTAINS(study.out, "verdict:");
  EXPECT_TRUE(file_exists(folder_ + "out/study.json"));
}

TEST_F(Guards, WhatAMetricNeedsIsMissedBeforeAnythingIsBuilt) {
  for (const std::string start :
       {"build m.onnx -o no.plan --precision int8 --max-drop 1% ", "study m.onnx -o no --max-drop 1% "}) {
    refused(2, start + "--data plain.npz --metric top1", {"right answers"});
    refused(2, start + "--data good.npz --output-name nope", {"no output 'nope'", "logits"});
    refused(2, start + "--data good.npz --metric bleu", {"there are top1"});
    refused(2, start + "--data wrong.npz", {"wrong.npz", "f32[9,1,9,9]", "image f32[batch,1,8,8]"});
    refused(2, start + "--data double.npz", {"double.npz", "f64[200,1,8,8]", "Save it as f32"});
    refused(2, start + "--data nothing.npz", {"nothing.npz", "holds no arrays"});
    refused(2, start + "--data mismatch.npz", {"mismatch.npz", "9 labels for 200 samples"});
  }
  refused(2, "build map.onnx -o no.plan --precision int8 --max-drop 1% --data good.npz --metric agreement",
          {"--output-name", "cosine, snr and difference"});
}

TEST_F(Guards, TooFewSamplesForABudgetAreNamed) {
  const Outcome built = run("build m.onnx -o m.plan --precision int8 --data few.npz --max-drop 1% --no-measure");
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_CONTAINS(built.err, "20 samples are too few to tell a drop of 1.00 % from none: 194 would (95 %)");
  EXPECT_CONTAINS(built.err, "auto took mse");
  EXPECT_EQ(built.out.find("drop with every layer in int8: 0.00 %"), std::string::npos) << built.out;
  EXPECT_CONTAINS(built.out, "194 would tell 1.00 %");
  // Without a budget they are told, too; and what is asked to be quiet prints no tables.
  const Outcome study = run("study m.onnx -o few --data few.npz --quick --duration 50ms");
  EXPECT_CONTAINS(study.err, "10 samples are too few to tell a drop of 1.00 % from none");
  EXPECT_CONTAINS(study.out, "at most ");
  EXPECT_EQ(study.out.find(" 0.00 %"), std::string::npos) << study.out;
  const Outcome quiet =
      run("build m.onnx -o m.plan --precision int8 --data few.npz --max-drop 1% --no-measure --quiet");
  ASSERT_EQ(quiet.code, 0) << quiet.err;
  EXPECT_EQ(std::count(quiet.out.begin(), quiet.out.end(), '\n'), 1) << quiet.out;
  const Outcome ranges = run("calibrate m.onnx --data few.npz -o r.json --quiet");
  EXPECT_EQ(ranges.code, 0) << ranges.err;
  EXPECT_EQ(ranges.out, "");
}

TEST_F(Guards, FlagsWithoutWhatTheyBelongToAreRefused) {
  ASSERT_EQ(run("build m.onnx -o f.plan --no-measure").code, 0);
  for (const char* flag : {"--metric top1", "--method mse", "--samples 5", "--seed 3", "--output-name logits"})
    refused(2, concat("build m.onnx -o no.plan --precision int8 ", std::string_view(flag)), {"--max-drop"});
  refused(2, "build m.onnx -o no.plan --label-column last", {"--data"});
  refused(
      2, "build m.onnx -o no.plan --precision int8 --calibration r.json --max-drop 50% --data good.npz --method minmax",
      {"--calibration gives the ranges", "leave --method out"});
  refused(2, "build m.onnx -o no.plan --precision bf16 --max-drop 50% --data good.npz --method minmax",
          {"--precision bf16 takes no ranges"});
  refused(2, "build m.onnx -o no.plan --keep-first", {"--precision int8"});
  refused(2, "build m.onnx -o nowhere/m.plan", {"there is no folder 'nowhere'"});
  refused(2, "compare f.plan f.plan --samples 5", {"--data"});
  refused(2, "compare f.plan f.plan --crop 8", {"--data"});
  for (const char* flag : {"--calibration r.json", "--qdq q.onnx"})
    EXPECT_EQ(run(concat("study m.onnx -o no --data good.npz ", std::string_view(flag))).code, 2) << flag;
  for (const char* flag : {"--precision int8", "--calibration r.json", "--keep-last", "--shapes 1x1x8x8",
                           "--device reference", "--disable all"})
    refused(2, concat("run f.plan --input few.npz ", std::string_view(flag)),
            {"is a plan, built for fp32", "temper build m.onnx"});
}

TEST_F(Guards, DataOfACompareIsLookedAtBeforeTheTimesAreMeasured) {
  ASSERT_EQ(run("build m.onnx -o f.plan --no-measure").code, 0);
  refused(2, "compare f.plan f.plan --duration 1m --data wrong.npz", {"wrong.npz"});
  refused(3, "compare f.plan f.plan --duration 1m --data none.npz", {"none.npz"});
}

TEST_F(Guards, ANanInEvaluationDataIsNamedByTensorAndSample) {
  const Outcome outcome = run("evaluate m.onnx --data nan.npz --no-measure --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.err,
                  "warning: the input 'image' holds 1 value that is NaN or infinite, in 1 of 200 samples, first NaN at "
                  "[0,3,3] of sample '150'");
  EXPECT_EQ(run("evaluate m.onnx --data good.npz --no-measure --json").err.find("NaN"), std::string::npos);
  const Outcome seen = run("run m.onnx --input image=nan.npz --no-measure");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_CONTAINS(seen.err,
                  "warning: the input 'image' holds 1 value that is NaN or infinite, in 1 of 200 samples, first NaN at "
                  "[0,3,3] of sample '150'");
  EXPECT_EQ(run("run m.onnx --input image=good.npz --no-measure").err.find("NaN"), std::string::npos);
}

TEST_F(Guards, ANanInAnInputOfRunsThatAreTimedIsNamedOnce) {
  run_python(folder_, R"(
import numpy as np
x = np.load('few.npz')['image']
np.save('good.npy', x)
x[5, 0, 3, 3] = np.nan; x[7, 0, 0, 0] = np.inf; np.save('nan.npy', x)
)");
  ASSERT_EQ(run("build m.onnx -o f.plan --no-measure --shapes image=8x1x8x8").code, 0);
  const std::string seen =
      "warning: the input 'image' holds 2 values that are NaN or infinite, in 2 of 8 samples, first NaN at [0,3,3] of "
      "sample '5'; look at the data and at the preprocessing";
  for (const std::string& verb :
       {std::string("bench f.plan --duration 50ms"),
        std::string("bench m.onnx --batch 8 --threads 1,2 --duration 50ms"),
        std::string("bench f.plan --device cpu,cpu --duration 50ms"), std::string("profile f.plan --duration 50ms"),
        std::string("explain f.plan f.plan --duration 50ms")}) {
    const Outcome outcome = run(verb + " --input nan.npy");
    ASSERT_EQ(outcome.code, 0) << verb << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, seen) << verb;
    EXPECT_EQ(outcome.err.find(seen), outcome.err.rfind(seen)) << verb << ": " << outcome.err;
  }
  EXPECT_EQ(run("bench f.plan --duration 50ms --input image=good.npy").err.find("NaN"), std::string::npos);
}

// On the reference: a relu that oneDNN computes makes numbers of NaN (docs/data.md).
TEST_F(Guards, ScoresThatAreNotFiniteHaveNoRanking) {
  run_python(folder_, "import numpy as np; np.save('inf.npy', np.full((1, 1, 8, 8), np.inf, 'f4'))");
  const Outcome shown = run("run m.onnx --input inf.npy --device reference");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_CONTAINS(shown.out, "no ranking: scores are NaN or infinite");
  EXPECT_EQ(shown.out.find("nan %"), std::string::npos) << shown.out;
  const Outcome as_json = run("run m.onnx --input inf.npy --device reference --json");
  EXPECT_EQ(nlohmann::json::parse(as_json.out).at("top").at(0).at("classes"), nlohmann::json::array());
  EXPECT_CONTAINS(run("run m.onnx --input image=few.npz --no-measure").out, " %  class ");
}

TEST_F(Guards, EveryResultOfAPlanCalibratedOnNoiseSaysThatItIsMeaningless) {
  ASSERT_EQ(run("calibrate m.onnx --placeholder-data -o noise.json").code, 0);
  ASSERT_EQ(run("build m.onnx -o f.plan --no-measure").code, 0);
  const std::string_view mark = "meaningless for accuracy";
  const Outcome built = run("build m.onnx -o n.plan --precision int8 --calibration noise.json --no-measure");
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_CONTAINS(built.out, mark);
  for (const char* arguments :
       {"inspect n.plan", "run n.plan --input few.npz --batch 1", "evaluate n.plan --data good.npz",
        "compare f.plan n.plan --duration 50ms", "compare f.plan n.plan --duration 50ms --data good.npz"})
    EXPECT_CONTAINS(run(arguments).out, mark) << arguments;
  for (const char* arguments : {"inspect n.plan --json", "run n.plan --input few.npz --batch 1 --json",
                                "evaluate n.plan --data good.npz --json"})
    EXPECT_EQ(nlohmann::json::parse(run(arguments).out).at("placeholder"), true) << arguments;
  EXPECT_EQ(nlohmann::json::parse(run("run f.plan --input few.npz --batch 1 --json").out).at("placeholder"), false);
  EXPECT_EQ(
      nlohmann::json::parse(run("compare f.plan n.plan --duration 50ms --json").out).at("plans")[1].at("placeholder"),
      true);
  const Outcome bench = run("bench n.plan --duration 50ms --json bench.json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_CONTAINS(bench.out, "calibrated on noise");
  EXPECT_CONTAINS(nlohmann::json::parse(read_file(folder_ + "bench.json"))
                      .at("runs")[0]
                      .at("notes")
                      .at("precision")
                      .get<std::string>(),
                  mark);
}

TEST_F(Guards, ACacheOfAnotherModelIsAnErrorAndStrayEntriesAWarning) {
  write_text(folder_ + "other.cache", "TRT-8501-EntropyCalibration2\ndata: 3c010204\n");
  write_text(folder_ + "stray.cache",
             "TRT-8501-EntropyCalibration2\nimage: 3c010204\n(Unnamed Layer* 64) [Shuffle]_output: 3c010204\n");
  const Outcome lint = run("calibrate m.onnx --lint other.cache");
  EXPECT_EQ(lint.code, 1);
  EXPECT_CONTAINS(lint.out, "it is of another model");
  refused(2, "calibrate m.onnx --from-cache other.cache -o no", {"other.cache", "'data'", "another model"});
  EXPECT_EQ(run("calibrate m.onnx --lint stray.cache").code, 0);
  const Outcome stray = run("calibrate m.onnx --from-cache stray.cache -o r.json");
  EXPECT_EQ(stray.code, 0) << stray.err;
  EXPECT_CONTAINS(stray.err, "1 of the 2 entries name no tensor of the model");
}

}  // namespace
}  // namespace temper
