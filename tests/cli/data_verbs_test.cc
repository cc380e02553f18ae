// SPDX-License-Identifier: Apache-2.0
// run and evaluate as a user calls them, on models small enough to check with NumPy.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/npy.h"
#include "program.h"

namespace temper {
namespace {

// linear.onnx: scores = x * W for x f32[batch,4], three classes. fixed.onnx: the same for a batch of 2. two.onnx: a
// f32[batch,2] + b f32[batch,2].
constexpr const char* kModelsWithData = R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
W = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 1]], 'f4')
def save(name, batch):
    g = h.make_graph([h.make_node('MatMul', ['x', 'W'], ['scores/out:0'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, [batch, 4])],
                     [h.make_tensor_value_info('scores/out:0', T.FLOAT, [batch, 3])], [numpy_helper.from_array(W, 'W')])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), name)
save('linear.onnx', 'batch'); save('fixed.onnx', 2)
io = [h.make_tensor_value_info(n, T.FLOAT, ['batch', 2]) for n in 'aby']
onnx.save(h.make_model(h.make_graph([h.make_node('Add', ['a', 'b'], ['y'])], 'g', io[:2], io[2:]), opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'two.onnx')
x = np.random.RandomState(0).randint(-5, 6, (100, 4)).astype('f4')
np.save('x.npy', x); np.save('expected.npy', x @ W)
labels = (x @ W).argmax(1); labels[:10] = (labels[:10] + 1) % 3
np.savetxt('x.csv', np.c_[x, labels], delimiter=',', fmt='%g', header='a,b,c,d,label', comments='')
np.save('wide.npy', np.zeros((3, 5), 'f4')); np.save('double.npy', np.zeros((3, 4)))
open('names.txt', 'w').write('ant\nbee\ncat\n')
)";

// The shapes are the data's then, and buckets were dropped without a word.
TEST(RunVerb, BucketsWithoutARangeOfShapesAreRefusedAsByEvaluate) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  for (const std::string line :
       {"run linear.onnx --input x=x.npy", "evaluate linear.onnx --data x.csv --label-column label"}) {
    const std::string build = line + " --no-measure --buckets 2";
    const Outcome refused = temper(folder, build);
    EXPECT_EQ(refused.code, 2) << line << "\n" << refused.err;
    EXPECT_NE(refused.err.find("leave --buckets out, or give a range in --shapes"), std::string::npos) << refused.err;
    const Outcome taken = temper(folder, build + " --shapes x=1x4:2x4:100x4");
    EXPECT_EQ(taken.code, 0) << line << "\n" << taken.err;
  }
}

TEST(RunVerb, EveryBatchSizeGivesTheSameFileAsNumpy) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  const Tensor expected = read_npy(folder + "expected.npy");
  for (const char* how :
       {"linear.onnx --batch 32", "linear.onnx --batch 7", "linear.onnx", "linear.onnx --batch 100", "fixed.onnx",
        "linear.onnx --shapes x=1x4:4x4:8x4", "linear.onnx --device reference", "linear.onnx --no-measure"}) {
    std::filesystem::remove_all(folder + "out");
    const Outcome outcome =
        temper(folder, concat("run ", std::string_view(how), " --input x=x.npy --output-dir out --json"));
    ASSERT_EQ(outcome.code, 0) << how << outcome.err;
    EXPECT_TRUE(read_npy(folder + "out/scores_out_0.npy").same_bits(expected))
        << how;  // small integers: exact in any order
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json.at("samples"), 100);
    EXPECT_EQ(json.at("outputs")[0].at("type"), "f32[100,3]");
    EXPECT_EQ(json.at("top").size(), 100u);
  }
}

TEST(BuildVerb, WithoutMeasuringNoStepHasATimeAndNoTimeIsSaved) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  const Outcome built = temper(folder, "build linear.onnx -o linear.plan --no-measure");
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_CONTAINS(built.out, "steps: not timed");
  EXPECT_CONTAINS(nlohmann::json::parse(temper(folder, "inspect linear.plan --json").out).at("command").dump(),
                  "--no-measure");
  const Outcome best = temper(folder, "build linear.onnx -o best.plan --no-measure --precision best");
  EXPECT_EQ(best.code, 2);
  EXPECT_CONTAINS(best.err, "it needs a build that measures");
}

TEST(RunVerb, AFixedBatchIsFilledUpForTheLastSample) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kModelsWithData) + "np.save('odd.npy', x[:5])\n");
  ASSERT_EQ(temper(folder, "run fixed.onnx --input odd.npy --output-dir out --no-measure").code, 0);
  const Tensor got = read_npy(folder + "out/scores_out_0.npy"), expected = read_npy(folder + "expected.npy");
  ASSERT_EQ(got.dims(), (Dims{5, 3}));
  for (int i = 0; i < 15; ++i) EXPECT_EQ(got.data<float>()[i], expected.data<float>()[i]);
}

TEST(RunVerb, APlanGivesWhatItsModelGives) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  const Outcome built = temper(folder, "build linear.onnx -o linear.plan --shapes x=4x4:16x4:32x4");
  ASSERT_EQ(built.code, 0) << built.err;
  for (const char* batch :
       {"", "--batch 32", "--batch 9"}) {  // of 100 by 9 one is left over, and the plan takes no fewer than 4
    const Outcome outcome =
        temper(folder, concat("run linear.plan --input x.npy --output-dir out ", std::string_view(batch)));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(read_npy(folder + "out/scores_out_0.npy").same_bits(read_npy(folder + "expected.npy"))) << batch;
  }
  const Outcome refused = temper(folder, "run linear.plan --input x.npy --batch 64");
  EXPECT_EQ(refused.code, 2);
  EXPECT_CONTAINS(refused.err, "batches of 4 to 32, not of 64");
  EXPECT_EQ(
      nlohmann::json::parse(temper(folder, "evaluate linear.plan --data x.csv --json").out).at("top1").at("right"), 90);
}

TEST(RunVerb, TopKShowsClassNames) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kModelsWithData) + "np.save('one.npy', np.array([[0, 0, 1, 0]], 'f4'))\n");
  const Outcome outcome =
      temper(folder, "run linear.onnx --input one.npy --top 2 --class-names names.txt --no-measure");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_CONTAINS(outcome.out, "1    90.94 %  cat (2)");  // e^3 / (e^3 + 2)
  EXPECT_CONTAINS(outcome.out, "2     4.53 %  ant (0)");
  EXPECT_EQ(outcome.out.find("bee"), std::string::npos);
}

TEST(RunVerb, InputsNotGivenAreRandomAndItSaysSo) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  const Outcome one = temper(folder, "run two.onnx --seed 3 --output-dir one --json --no-measure"),
                two = temper(folder, "run two.onnx --seed 3 --output-dir two --no-measure"),
                other = temper(folder, "run two.onnx --seed 4 --output-dir other --no-measure");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(nlohmann::json::parse(one.out).at("random_inputs"), nlohmann::json({"a", "b"}));
  EXPECT_CONTAINS(one.err, "input 'a' is not given and filled with random numbers (seed 3)");
  EXPECT_TRUE(read_npy(folder + "one/y.npy").same_bits(read_npy(folder + "two/y.npy")));
  EXPECT_FALSE(read_npy(folder + "one/y.npy").same_bits(read_npy(folder + "other/y.npy")));
}

TEST(RunVerb, WrongInputsEndWithOneMessageAndNothingWritten) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  const auto refused = [&](int code, const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "run " + arguments + " --output-dir out");
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, part);
    EXPECT_FALSE(file_exists(folder + "out")) << arguments;
  };
  refused(2, "linear.onnx --input z=x.npy", "x f32[batch,4]");
  refused(2, "linear.onnx --input x=wide.npy", "f32[3,5] does not fit input 'x'");
  refused(2, "linear.onnx --input x=double.npy", "f64[3,4] does not fit input 'x'");
  refused(2, "fixed.onnx --input x=x.npy --batch 3", "takes batches of 2, not of 3");
  refused(2, "two.onnx --input x.npy", "NAME=FILE");
  refused(3, "linear.onnx --input x=none.npy", "none.npy");
  refused(3, "none.onnx --input x=x.npy", "none.onnx");
  refused(2, "two.onnx --top 3 --input a=x.npy", "does not fit");
}

TEST(EvaluateVerb, AccuracyAndItsIntervalAreNumpys) {
  const std::string folder = test_folder();
  run_python(folder, kModelsWithData);
  const Outcome outcome = temper(folder, "evaluate linear.onnx --data x.csv --batch 32 --json --no-measure");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("samples"), 100);
  EXPECT_EQ(json.at("top1").at("right"), 90);
  EXPECT_NEAR(json.at("top1").at("ci95")[0].get<double>(), 0.8256, 1e-4);
  EXPECT_NEAR(json.at("top1").at("ci95")[1].get<double>(), 0.9448, 1e-4);
  EXPECT_TRUE(json.at("top5").is_null());
  EXPECT_CONTAINS(temper(folder, "evaluate linear.onnx --data x.csv --no-measure").out, "82.56 % to 94.48 %");
  const Outcome unlabelled = temper(folder, "evaluate linear.onnx --data x.npy --no-measure");
  EXPECT_EQ(unlabelled.code, 2);
  EXPECT_CONTAINS(unlabelled.err, "right answers");
}

}  // namespace
}  // namespace temper
