// SPDX-License-Identifier: Apache-2.0
// evaluate on a real model in INT8, and what it refuses to call a result.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

// digits_cnn and scikit-learn's digits: train.npz (400 of those it was trained on), test.npz (the 599 held out).
std::string digits() {
  const std::string folder = test_folder();
  run_python(folder, R"(
import sys
sys.path.insert(0, ')" + paths::source_folder() +
                         R"(/python')
import digits_data
train, train_labels, test, labels = digits_data.load()
np.savez('train.npz', image=train[:400], labels=train_labels[:400]); np.savez('test.npz', image=test, labels=labels)
np.savez('plain.npz', image=test); np.savez('both.npz', image=np.concatenate([test[:9], train[7:8]]), labels=np.append(labels[:9], train_labels[7]))
np.savez('shuffled.npz', image=test, labels=np.random.RandomState(0).permutation(labels))
np.savez('few.npz', image=test[:4], labels=labels[:4])
)");
  EXPECT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  return folder;
}

TEST(EvaluateInt8, HeldOutDigitsAgreeWithFp32ForEveryMethod) {
  const std::string folder = digits();
  for (const char* method : {"entropy", "percentile", "mse", "minmax"}) {
    ASSERT_EQ(
        temper(folder, concat("calibrate m.onnx --data train.npz -o r.json --method ", std::string_view(method))).code,
        0);
    const Outcome done =
        temper(folder, "evaluate m.onnx --precision int8 --calibration r.json --data test.npz --no-measure --json");
    ASSERT_EQ(done.code, 0) << done.err;
    const auto json = nlohmann::json::parse(done.out);
    EXPECT_EQ(json.at("samples"), 599);
    EXPECT_EQ(json.at("precision"), "int8");
    EXPECT_GE(json.at("agreement").at("rate").get<double>(), 0.99) << method;
    EXPECT_GE(json.at("top1").at("rate").get<double>(), 0.975) << method;
    EXPECT_GT(json.at("outputs")[0].at("snr_db").get<double>(), 25) << method;
    EXPECT_LT(json.at("outputs")[0].at("snr_db").get<double>(), 60) << "this is not int8";
    const auto &m = json.at("mcnemar"), &top1 = json.at("top1"), &before = json.at("reference_top1");
    EXPECT_EQ(before.at("right").get<int>() - top1.at("right").get<int>(),
              m.at("lost").get<int>() - m.at("won").get<int>());
    EXPECT_LT(m.at("drop_ci95")[0], m.at("drop_ci95")[1]);
  }
}

TEST(EvaluateInt8, APlanKnowsItsModelAndItsCalibrationData) {
  const std::string folder = digits();
  ASSERT_EQ(temper(folder, "calibrate m.onnx --data train.npz -o r.json").code, 0);
  const Outcome built = temper(
      folder,
      "build m.onnx -o m.plan --precision int8 --calibration r.json --no-measure --shapes 1x1x8x8:16x1x8x8:32x1x8x8");
  ASSERT_EQ(built.code, 0) << built.err;
  const Outcome done = temper(folder, "evaluate m.plan --data test.npz");
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* part : {"agreement", "McNemar, exact p", "SNR", "top-1 of the reference"})
    EXPECT_CONTAINS(done.out, part);

  const Outcome overlap = temper(folder, "evaluate m.plan --data both.npz");
  EXPECT_EQ(overlap.code, 2);
  EXPECT_CONTAINS(overlap.err, "sample '9' has the same content");

  std::filesystem::rename(folder + "m.onnx", folder + "moved.onnx");
  const Outcome alone = temper(folder, "evaluate m.plan --data test.npz --json");
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_CONTAINS(alone.err, "--reference MODEL");
  EXPECT_FALSE(nlohmann::json::parse(alone.out).contains("agreement"));
  EXPECT_EQ(temper(folder, "evaluate m.plan --data test.npz --metric agreement").code, 2);
  const Outcome named =
      temper(folder, "evaluate m.plan --data plain.npz --metric agreement --reference moved.onnx --json");
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_GE(nlohmann::json::parse(named.out).at("agreement").at("rate").get<double>(), 0.99);
  ASSERT_EQ(temper(folder, "zoo cifar_cnn -o m.onnx").code, 0);
  EXPECT_CONTAINS(temper(folder, "evaluate m.plan --data test.npz").err, "no longer the model");
}

TEST(EvaluateGuards, AccuracyOfGuessingIsShownWithAWarningAndWhatIsNoResultIsNotShownAsOne) {
  const std::string folder = digits();
  const Outcome guessing = temper(folder, "evaluate m.onnx --data shuffled.npz --no-measure");
  EXPECT_EQ(guessing.code, 0) << guessing.err;
  EXPECT_CONTAINS(guessing.err, "warning: ");
  EXPECT_CONTAINS(guessing.err, "is no better than guessing among 10 classes");
  EXPECT_CONTAINS(guessing.out, "top-1");
  EXPECT_CONTAINS(nlohmann::json::parse(temper(folder, "evaluate m.onnx --data shuffled.npz --no-measure --json").out)
                      .at("top1")
                      .at("warning")
                      .get<std::string>(),
                  "guessing");
  write_text(folder + "names.txt", "zero\none\ntwo\n");
  const Outcome classes = temper(folder, "evaluate m.onnx --data test.npz --class-names names.txt");
  EXPECT_EQ(classes.code, 2);
  EXPECT_CONTAINS(classes.err, "the data has 3 classes and the output 'logits' 10");
  const Outcome few = temper(folder, "evaluate m.onnx --data few.npz --no-measure --json");
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_LT(nlohmann::json::parse(few.out).at("top1").at("ci95")[0].get<double>(), 0.52);
  EXPECT_EQ(temper(folder, "evaluate m.onnx --data plain.npz").code, 2);
  EXPECT_EQ(temper(folder, "evaluate m.onnx --data test.npz --metric map").code, 2);
  ASSERT_EQ(temper(folder, "calibrate m.onnx --placeholder-data -o noise.json").code, 0);
  const Outcome noise =
      temper(folder, "evaluate m.onnx --precision int8 --calibration noise.json --data test.npz --no-measure --json");
  ASSERT_EQ(noise.code, 0) << noise.err;
  EXPECT_CONTAINS(noise.err, "meaningless for accuracy");
  EXPECT_EQ(nlohmann::json::parse(noise.out).at("placeholder"), true);
}

}  // namespace
}  // namespace temper
