// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../run_node.h"

namespace temper {
namespace {

using Values = std::vector<double>;
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ImportPointwise, BeforeOpset7AxisAlignsTheSecondInput) {
  NodeCase test{"Add", 6, {Tensor::of<float>({2, 2, 2}, {0, 0, 0, 0, 0, 0, 0, 0}), Tensor::of<float>({2}, {1, 2})}};
  test.attributes = [](onnx::NodeProto& node) {
    set_attribute(node, "broadcast", int64_t(1)), set_attribute(node, "axis", int64_t(1));
  };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{1, 1, 2, 2, 1, 1, 2, 2}));
}

TEST(ImportPointwise, IsInfTellsTheSigns) {
  NodeCase test{"IsInf", 20, {Tensor::of<float>({4}, {kInf, -kInf, 1, NAN})}};
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{1, 1, 0, 0}));
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "detect_negative", int64_t(0)); };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{1, 0, 0, 0}));
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "detect_positive", int64_t(0)); };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{0, 1, 0, 0}));
  test.attributes = [](onnx::NodeProto& node) {
    set_attribute(node, "detect_positive", int64_t(0)), set_attribute(node, "detect_negative", int64_t(0));
  };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{0, 0, 0, 0}));
}

TEST(ImportPointwise, PowKeepsTheDtypeOfTheBase) {
  const auto power =
      run_node({"Pow", 15, {Tensor::of<int32_t>({3}, {2, 3, 9}), Tensor::of<float>({3}, {3, 2, 0.5f})}})[0];
  EXPECT_EQ(power.dtype(), DType::i32);
  EXPECT_EQ(power.to_doubles(), (Values{8, 9, 3}));
}

// ONNX Runtime computes them in floating point.
TEST(ImportPointwise, PowersOfIntegersWrap) {
  const Tensor exponents = Tensor::of<int64_t>({4}, {10, 41, 41, 2});
  const Tensor narrow = run_node({"Pow", 15, {Tensor::of<int32_t>({4}, {10, 3, -3, 46341}), exponents}})[0];
  EXPECT_EQ(narrow.to_doubles(), (Values{1410065408, 2069870691, -2069870691, -2147479015}));
  const Tensor wide =
      run_node({"Pow", 15, {Tensor::of<int64_t>({4}, {3, 2, 2, -2}), Tensor::of<int64_t>({4}, {41, 63, 64, 63})}})[0];
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(wide.to_ints(), (std::vector<int64_t>{-420491770248316829, kLeast, 0, kLeast}));
}

TEST(ImportPointwise, IntegersShrinkRoundedTowardsZero) {
  NodeCase test{"Shrink", 9, {Tensor::of<int8_t>({5}, {-4, -1, 0, 1, 4})}};
  test.attributes = [](onnx::NodeProto& node) {
    set_attribute(node, "lambd", 1.5f), set_attribute(node, "bias", 1.5f);
  };
  const Tensor y = run_node(test)[0];
  EXPECT_EQ(y.dtype(), DType::i8);
  EXPECT_EQ(y.to_doubles(), (Values{-2, 0, 0, 0, 2}));
  constexpr int64_t kLarge = (int64_t(1) << 60) + 1;
  EXPECT_EQ(run_node({"Shrink", 9, {Tensor::of<int64_t>({3}, {kLarge, 0, -kLarge})}})[0].to_ints(),
            (std::vector<int64_t>{kLarge, 0, -kLarge}));
}

TEST(ImportPointwise, ErfOfIntegersIsRoundedTowardsZero) {
  const Tensor y = run_node({"Erf", 9, {Tensor::of<int32_t>({4}, {-7, -2, 0, 7})}})[0];
  EXPECT_EQ(y.dtype(), DType::i32);
  EXPECT_EQ(y.to_doubles(), (Values{-1, 0, 0, 1}));
}

TEST(ImportPointwise, ModOfFloatsNeedsFmod) {
  EXPECT_EQ(import_error({"Mod", 13, {Tensor::of<float>({1}, {1}), Tensor::of<float>({1}, {2})}}), ErrorKind::bad_file);
  EXPECT_EQ(
      run_node({"Mod", 13, {Tensor::of<int32_t>({2}, {-5, 5}), Tensor::of<int32_t>({2}, {3, -3})}})[0].to_doubles(),
      (Values{1, -1}));
}

TEST(ImportPointwise, ClipWithContradictingLimitsGivesTheHighOne) {
  const Tensor x = Tensor::of<float>({3}, {-9, 0, 9});
  EXPECT_EQ(run_node({"Clip", 13, {x, Tensor::of<float>({}, {5}), Tensor::of<float>({}, {2})}})[0].to_doubles(),
            (Values{2, 2, 2}));
  EXPECT_EQ(run_node({"Clip", 13, {x, Tensor(), Tensor::of<float>({}, {2})}})[0].to_doubles(), (Values{-9, 0, 2}));
}

TEST(ImportPointwise, PReluOfOpset6TakesAnySlopeVectorAsChannels) {
  const Tensor x = Tensor::of<float>({1, 2, 2}, {-1, -1, -1, -1}), slope = Tensor::of<float>({2}, {2, 3});
  EXPECT_EQ(run_node({"PRelu", 6, {x, slope}})[0].to_doubles(), (Values{-2, -2, -3, -3}));
  EXPECT_EQ(run_node({"PRelu", 16, {x, slope}})[0].to_doubles(), (Values{-2, -3, -2, -3}));
}

TEST(ImportPointwise, SoftplusAndMishDoNotOverflow) {
  const Tensor x = Tensor::of<float>({3}, {-200, 0, 200});
  const Values soft = run_node({"Softplus", 22, {x}})[0].to_doubles(),
               mish = run_node({"Mish", 22, {x}})[0].to_doubles();
  EXPECT_FLOAT_EQ(soft[0], 0);
  EXPECT_FLOAT_EQ(soft[1], std::log(2.0f));
  EXPECT_FLOAT_EQ(soft[2], 200);
  EXPECT_FLOAT_EQ(mish[2], 200);
}

TEST(ImportPointwise, TheDropoutMaskIsOfTheInputsDtypeBeforeOpset10) {
  const Tensor x = Tensor::of<float>({2}, {3, 4});
  EXPECT_EQ(run_node({"Dropout", 7, {x}, {}, 2})[1].dtype(), DType::f32);
  const auto outputs = run_node({"Dropout", 13, {x}, {}, 2});
  EXPECT_EQ(outputs[0].to_doubles(), (Values{3, 4}));
  EXPECT_EQ(outputs[1].dtype(), DType::boolean);
  EXPECT_EQ(outputs[1].to_doubles(), (Values{1, 1}));
}

TEST(ImportPointwise, DropoutInTrainingDropsWhatItsMaskSays) {
  const Tensor x = Tensor::of<float>({8}, {1, 2, 3, 4, 5, 6, 7, 8}), ratio = Tensor::of<float>({}, {0.5f});
  for (const bool training : {true, false})
    for (const bool constant : {true, false}) {
      NodeCase test{"Dropout", 13, {x, ratio, Tensor::of<bool>({}, {training})}, {}, 2};
      if (constant) test.constants = {2};
      const auto outputs = run_node(test);
      const Values y = outputs[0].to_doubles(), mask = outputs[1].to_doubles();
      for (size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(y[i], (training ? 2 : 1) * mask[i] * double(i + 1));
        if (!training) { EXPECT_EQ(mask[i], 1); }
      }
    }
}

TEST(ImportPointwise, DropoutInTrainingIsRefusedBeforeOpset7) {
  EXPECT_EQ(import_error({"Dropout", 6, {Tensor::of<float>({1}, {1})}}), ErrorKind::unsupported);
}

TEST(ImportPointwise, AnAttributeThatNobodyReadsIsRefused) {
  NodeCase test{"Tanh", 13, {Tensor::of<float>({1}, {1})}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "surprise", int64_t(1)); };
  EXPECT_NE(import_error(test), std::nullopt);
}

}  // namespace
}  // namespace temper
