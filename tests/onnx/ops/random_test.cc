// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "../run_node.h"

namespace temper {
namespace {

constexpr int64_t kMany = 100000;

NodeCase like(const char* op, DType dtype = DType::f32) { return {op, 22, {Tensor(dtype, {100, kMany / 100})}}; }

// The largest distance between the share of numbers up to x and what it should be (Kolmogorov and Smirnov). 1.95
// divided by the root of their number is exceeded once in a thousand tests.
template <class F>
double distance(std::vector<double> values, F share) {
  std::sort(values.begin(), values.end());
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i)
    most = std::max(most, std::fabs(share(values[i]) - double(i) / double(values.size())));
  return most;
}
const double kClose = 1.95 / std::sqrt(double(kMany));

double correlation(const std::vector<double>& values, size_t lag) {
  double mean = 0, sum = 0, square = 0;
  for (double v : values) mean += v / double(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    square += (values[i] - mean) * (values[i] - mean);
    if (i + lag < values.size()) sum += (values[i] - mean) * (values[i + lag] - mean);
  }
  return sum / square;
}

TEST(ImportRandom, UniformNumbersFillTheirRangeEvenlyAndDoNotFollowOneAnother) {
  for (DType dtype : {DType::f32, DType::f64}) {
    NodeCase test = like("RandomUniformLike", dtype);
    test.attributes = [](onnx::NodeProto& node) {
      set_attribute(node, "low", -2.0f);
      set_attribute(node, "high", 6.0f);
      set_attribute(node, "seed", 3.0f);
    };
    const Tensor y = run_node(test)[0];
    EXPECT_EQ(y.type(), test.inputs[0].type());
    const auto values = y.to_doubles();
    EXPECT_GE(*std::min_element(values.begin(), values.end()), -2);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 6);
    EXPECT_LT(distance(values, [](double x) { return (x + 2) / 8; }), kClose);
    for (size_t lag : {1, 2, 7, 100, 1000})
      EXPECT_LT(std::fabs(correlation(values, lag)), 4 / std::sqrt(double(kMany)));
    EXPECT_TRUE(run_node(test)[0].same_bits(y));
    test.attributes = [](onnx::NodeProto& node) { set_attribute(node, "seed", 4.0f); };
    EXPECT_FALSE(run_node(test)[0].same_bits(y));
  }
}

TEST(ImportRandom, NarrowFloatsStayBelowTheUpperBound) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    NodeCase test = like("RandomUniformLike", dtype);
    test.attributes = [](onnx::NodeProto& node) {
      set_attribute(node, "low", 1.0f);
      set_attribute(node, "high", 1.5f);
    };
    for (double v : run_node(test)[0].to_doubles()) ASSERT_TRUE(v >= 1 && v < 1.5) << v;
  }
}

TEST(ImportRandom, NormalNumbersHaveTheirMeanAndSpread) {
  NodeCase test{"RandomNormal", 22, {}, [](onnx::NodeProto& node) {
                  set_attribute(node, "shape", std::vector<int64_t>{10, kMany / 10});
                  set_attribute(node, "mean", 5.0f);
                  set_attribute(node, "scale", 0.5f);
                }};
  const Tensor y = run_node(test)[0];
  EXPECT_EQ(y.type(), type_of(DType::f32, {10, kMany / 10}));
  EXPECT_LT(distance(y.to_doubles(), [](double x) { return std::erfc((5 - x) / 0.5 / std::sqrt(2.0)) / 2; }), kClose);
}

TEST(ImportRandom, BernoulliIsOneAsOftenAsItsInputSays) {
  Tensor p(DType::f32, {3, kMany});
  for (int64_t i = 0; i < p.count(); ++i) p.data<float>()[i] = i < kMany ? 0.2f : i < 2 * kMany ? 0.0f : 1.0f;
  const auto y = run_node({"Bernoulli", 22, {p}})[0].to_doubles();
  EXPECT_NEAR(std::count(y.begin(), y.begin() + kMany, 1.0), 0.2 * kMany, 4 * std::sqrt(0.16 * kMany));
  EXPECT_EQ(std::count(y.begin(), y.end(), 1.0) + std::count(y.begin(), y.end(), 0.0), 3 * kMany);
  EXPECT_EQ(std::count(y.begin() + kMany, y.begin() + 2 * kMany, 1.0), 0);
  EXPECT_EQ(std::count(y.begin() + 2 * kMany, y.end(), 1.0), kMany);
}

TEST(ImportRandom, MultinomialDrawsClassesByTheirWeights) {
  NodeCase test{"Multinomial",
                22,
                {Tensor::of<float>({1, 3}, {std::log(1.0f), std::log(3.0f), std::log(6.0f)})},
                [](onnx::NodeProto& node) { set_attribute(node, "sample_size", kMany); }};
  const Tensor y = run_node(test)[0];
  EXPECT_EQ(y.type(), type_of(DType::i32, {1, kMany}));
  const auto values = y.to_ints();
  for (int64_t k = 0; k < 3; ++k) {
    const double p = std::vector<double>{0.1, 0.3, 0.6}[size_t(k)];
    EXPECT_NEAR(double(std::count(values.begin(), values.end(), k)), p * kMany, 4 * std::sqrt(p * (1 - p) * kMany));
  }
}

TEST(ImportDropout, InTrainingModeKeepsEnoughAndScalesItUp) {
  Tensor x(DType::f32, {kMany});
  for (int64_t i = 0; i < kMany; ++i) x.data<float>()[i] = float(i + 1);
  NodeCase test{"Dropout", 22, {x, Tensor::of<float>({}, {0.75f}), Tensor::of<bool>({}, {true})}};
  test.outputs = 2;
  const auto results = run_node(test);
  const auto y = results[0].to_doubles(), mask = results[1].to_doubles();
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], mask[i] ? 4.0 * double(i + 1) : 0) << i;
  EXPECT_NEAR(std::count(mask.begin(), mask.end(), 1.0), 0.25 * kMany, 4 * std::sqrt(0.1875 * kMany));
  test.inputs[2] = Tensor::of<bool>({}, {false});
  EXPECT_TRUE(run_node(test)[0].same_bits(x));
}

}  // namespace
}  // namespace temper
