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
  EXPECT_EQ(y.to_doubles(), (Values{3, 21, 127, 1}));
}

TEST(ImportQuantizeLinear, WithoutZeroPointTheResultIsU8) {
  EXPECT_EQ(run_node({"QuantizeLinear", 13, {Tensor::of<float>({2}, {-5, 300}), Tensor::of<float>({1}, {1})}})[0].to_doubles(), (Values{0, 255}));
}

TEST(ImportQuantizeLinear, BlocksAreRefused) {
  NodeCase test{"QuantizeLinear", 21, {Tensor::of<float>({2, 2}, {1, 2, 3, 4}), Tensor::of<float>({2, 1}, {1, 1})}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "block_size", int64_t(2)); };
  EXPECT_EQ(import_error(test), ErrorKind::unsupported);
}

TEST(ImportQuantizeLinear, AZeroPointOfAnotherShapeIsABadFile) {
  EXPECT_EQ(import_error({"DequantizeLinear", 13, {Tensor::of<int8_t>({2}, {1, 2}), Tensor::of<float>({}, {1}), Tensor::of<int8_t>({2}, {0, 0})}}),
            ErrorKind::bad_file);
}

TEST(ImportConvInteger, PaddingStandsForTheZeroPoint) {
  NodeCase test{"ConvInteger", 10, {Tensor::of<uint8_t>({1, 1, 1}, {7}), Tensor::of<uint8_t>({1, 1, 3}, {1, 1, 1}), Tensor::of<uint8_t>({}, {5})}};
  test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "pads", std::vector<int64_t>{1, 1}); };
  EXPECT_EQ(run_node(test)[0].to_doubles(), (Values{2}));
}

TEST(ImportMatMulInteger, ZeroPointsMayBeOnePerRowAndOnePerColumn) {
  const Tensor a = Tensor::of<uint8_t>({2, 2}, {1, 2, 3, 4}), b = Tensor::of<int8_t>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(run_node({"MatMulInteger", 10, {a, b, Tensor::of<uint8_t>({2}, {1, 3}), Tensor::of<int8_t>({2}, {1, 2})}})[0].to_doubles(),
            (Values{2, 2, 2, 2}));
}

}  // namespace
}  // namespace temper
