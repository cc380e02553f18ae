// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "../run_node.h"

namespace temper {
namespace {

using Values = std::vector<double>;

TEST(ImportQuantizeLinear, TheQuotientIsRoundedToTheScalesDtypeBeforeTiesAreBroken) {
  // 0.05f / 0.02f is 2.50000006 in double, thus 3, but exactly 2.5 in float, thus 2; 0.39f / 0.02f is 19.5 in float.
  const Tensor x = Tensor::of<float>({4}, {0.05f, 0.39f, 1000, NAN});
  const auto y = run_node({"QuantizeLinear", 13, {x, Tensor::of<float>({}, {0.02f}), Tensor::of<int8_t>({}, {1})}})[0];
  EXPECT_EQ(y.dtype(), DType::i8);
  EXPECT_EQ(y.to_doubles(), (Values{3, 21, 127, 0}));
}

TEST(ImportQuantizeLinear, WithoutZeroPointTheResultIsU8) {
  EXPECT_EQ(run_node({"QuantizeLinear", 13, {Tensor::of<float>({2}, {-5, 300}), Tensor::of<float>({1}, {1})}})[0]
                .to_doubles(),
            (Values{0, 255}));
}

TEST(ImportQuantizeLinear, ABlockHasItsScaleAndTheLastOneMayBeShort) {
  NodeCase test{"QuantizeLinear",
                21,
                {Tensor::of<float>({2, 3}, {1, 2, 3, 4, NAN, -INFINITY}), Tensor::of<float>({2, 2}, {1, 0.5, 2, 0.25}),
                 Tensor::of<int8_t>({2, 2}, {0, 1, 2, 3})}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "block_size", int64_t(2)); };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{1, 2, 7, 4, 0, -128}));
  test.inputs[1] = Tensor::of<float>({2, 3}, {1, 1, 1, 1, 1, 1});
  test.inputs[2] = Tensor(DType::i8, {2, 3});
  EXPECT_EQ(import_error(test), ErrorKind::bad_file);
}

TEST(ImportQuantizeLinear, AScaleThatIsNegativeNotFiniteOrDividesByZeroIsABadFile) {
  const Tensor x = Tensor::of<float>({2}, {1, 2}), q = Tensor::of<int8_t>({2}, {1, 2});
  for (float bad : {-0.1f, INFINITY, NAN, 0.0f}) {
    EXPECT_EQ(import_error({"QuantizeLinear", 13, {x, Tensor::of<float>({}, {bad})}, {}, 1, {1}}), ErrorKind::bad_file)
        << bad;
    EXPECT_EQ(import_error({"QuantizeLinear",
                            13,
                            {x, Tensor::of<float>({2}, {0.1f, bad})},
                            [](onnx::NodeProto& node) { set_attribute(node, "axis", int64_t(0)); },
                            1,
                            {1}}),
              ErrorKind::bad_file)
        << bad;
    if (bad != 0) {
      EXPECT_EQ(import_error({"DequantizeLinear", 13, {q, Tensor::of<float>({}, {bad})}, {}, 1, {1}}),
                ErrorKind::bad_file)
          << bad;
    }
  }
  // A channel of zeros has the scale 0 in models of some exporters, and stays one.
  EXPECT_EQ(run_node({"DequantizeLinear", 13, {q, Tensor::of<float>({}, {0})}, {}, 1, {1}})[0].to_doubles(),
            (Values{0, 0}));
}

TEST(ImportQLinearMatMul, ABadScaleOrTooFewOfThemIsABadFile) {
  const Tensor a = Tensor::of<uint8_t>({1, 2}, {1, 2}), b = Tensor::of<int8_t>({2, 3}, {1, 2, 3, 4, 5, 6}),
               one = Tensor::of<float>({}, {1}), z = Tensor::of<uint8_t>({}, {0}), zb = Tensor::of<int8_t>({}, {0});
  const auto error = [&](const Tensor& scale_a, const Tensor& scale_b, const Tensor& zero_b, const Tensor& scale_y) {
    return import_error({"QLinearMatMul", 10, {a, scale_a, z, b, scale_b, zero_b, scale_y, z}, {}, 1, {1, 4, 6}});
  };
  for (float bad : {-1.0f, INFINITY, NAN}) {
    EXPECT_EQ(error(Tensor::of<float>({}, {bad}), one, zb, one), ErrorKind::bad_file) << bad;
    EXPECT_EQ(error(one, Tensor::of<float>({3}, {1, bad, 1}), Tensor::of<int8_t>({3}, {0, 0, 0}), one),
              ErrorKind::bad_file)
        << bad;
    EXPECT_EQ(error(one, one, zb, Tensor::of<float>({}, {bad})), ErrorKind::bad_file) << bad;
  }
  EXPECT_EQ(error(one, one, zb, Tensor::of<float>({}, {0})), ErrorKind::bad_file);
  EXPECT_EQ(error(one, Tensor::of<float>({2}, {1, 1}), Tensor::of<int8_t>({2}, {0, 0}), one), ErrorKind::bad_file);
}

TEST(ImportDequantizeLinear, AnAxisOrAListOfScalesThatDoesNotFitIsABadFile) {
  const Tensor w = Tensor::of<int8_t>({2, 3}, {1, 2, 3, 4, 5, 6}), scales = Tensor::of<float>({3}, {1, 1, 1});
  const auto error = [&](int64_t axis) {
    return import_error(
        {"DequantizeLinear", 13, {w, scales}, [axis](onnx::NodeProto& node) { set_attribute(node, "axis", axis); }});
  };
  EXPECT_EQ(error(2), ErrorKind::bad_file);
  EXPECT_EQ(error(-3), ErrorKind::bad_file);
  EXPECT_EQ(error(0), ErrorKind::bad_file);
}

TEST(ImportQuantizeLinear, AZeroPointOfAnotherShapeIsABadFile) {
  EXPECT_EQ(
      import_error({"DequantizeLinear",
                    13,
                    {Tensor::of<int8_t>({2}, {1, 2}), Tensor::of<float>({}, {1}), Tensor::of<int8_t>({2}, {0, 0})}}),
      ErrorKind::bad_file);
}

TEST(ImportConvInteger, PaddingStandsForTheZeroPoint) {
  NodeCase test{
      "ConvInteger",
      10,
      {Tensor::of<uint8_t>({1, 1, 1}, {7}), Tensor::of<uint8_t>({1, 1, 3}, {1, 1, 1}), Tensor::of<uint8_t>({}, {5})}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "pads", std::vector<int64_t>{1, 1}); };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{2}));
}

TEST(ImportMatMulInteger, ZeroPointsMayBeOnePerRowAndOnePerColumn) {
  const Tensor a = Tensor::of<uint8_t>({2, 2}, {1, 2, 3, 4}), b = Tensor::of<int8_t>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(
      run_node({"MatMulInteger", 10, {a, b, Tensor::of<uint8_t>({2}, {1, 3}), Tensor::of<int8_t>({2}, {1, 2})}})[0]
          .to_doubles(),
      (Values{2, 2, 2, 2}));
}

}  // namespace
}  // namespace temper
