// SPDX-License-Identifier: Apache-2.0
#include "data/topk.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/random.h"
#include "helpers.h"

namespace temper {
namespace {

using Row = std::vector<float>;

TEST(TopK, EqualValuesKeepTheLowerIndexFirstAndNanComesLast) {
  const Row row = {1, 3, NAN, 3, 2};
  std::vector<int64_t> order;
  for (const auto& ranked : top_k(row, 9)) order.push_back(ranked.index);
  EXPECT_EQ(order, (std::vector<int64_t>{1, 3, 4, 0, 2}));
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(rank_of(row, order[i]), int64_t(i));
  EXPECT_EQ(top_k(row, 2).size(), 2u);
  EXPECT_TRUE(top_k(row, 0).empty());
}

TEST(TopK, LogitsGetASoftmaxAndDistributionsStayAsTheyAre) {
  const auto logits = top_k(Row{1000, 1000, -INFINITY}, 3);
  EXPECT_DOUBLE_EQ(logits[0].probability, 0.5);
  EXPECT_EQ(logits[2].probability, 0);
  const auto probabilities = top_k(Row{0.25f, 0.75f}, 1);
  EXPECT_EQ(probabilities[0].probability, 0.75);
  EXPECT_FALSE(is_distribution(Row{0.5f, 0.4f}));
  EXPECT_FALSE(is_distribution(Row{1.5f, -0.5f}));
  EXPECT_FALSE(is_distribution(Row{NAN, 1}));
}

TEST(TopK, OnlyClassifierOutputsAreTakenAsRows) {
  EXPECT_EQ(class_rows(Tensor(DType::f16, {2, 5, 1, 1}), "y").type(), type_of(DType::f32, {2, 5}));
  EXPECT_EQ(class_rows(Tensor(DType::f32, {5}), "y").dims(), (Dims{1, 5}));
  for (const Tensor& other :
       {Tensor(DType::f32, {2, 5, 3}), Tensor(DType::i64, {2, 5}), Tensor(DType::f32, {}), Tensor(DType::f32, {0, 5})})
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { class_rows(other, "y"); }), "'y'");
}

TEST(Accuracy, Top1AndTop5CountAndNanIsWrong) {
  Tensor rows(DType::f32, {4, 6});
  for (int i = 0; i < 24; ++i) rows.data<float>()[i] = float(6 - i % 6);  // class 0 best, class 5 worst
  rows.data<float>()[18] = NAN;
  Accuracy accuracy;
  accuracy.add(rows, std::vector<int64_t>{0, 4, 5, 0}, std::vector<int64_t>{0, 1, 2, 3});
  EXPECT_EQ(accuracy.n, 4);
  EXPECT_EQ(accuracy.classes, 6);
  EXPECT_EQ(accuracy.top1, 1);
  EXPECT_EQ(accuracy.top5, 2);
  EXPECT_EQ(accuracy.top1_rate(), 0.25);
  EXPECT_CONTAINS(
      error_of(ErrorKind::usage,
               [&] { accuracy.add(rows, std::vector<int64_t>{0, 6, 0, 0}, std::vector<int64_t>{90, 101, 110, 120}); }),
      "sample 101 has the label 6");
  error_of(ErrorKind::usage, [&] { accuracy.add(rows, std::vector<int64_t>{0}, std::vector<int64_t>{0}); });
}

TEST(Accuracy, WilsonIntervalsEqualPublishedValues) {
  // R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
  EXPECT_NEAR(wilson_interval(81, 263).low, 0.2553, 5e-5);
  EXPECT_NEAR(wilson_interval(81, 263).high, 0.3662, 5e-5);
  EXPECT_NEAR(wilson_interval(15, 148).low, 0.0624, 5e-5);
  EXPECT_NEAR(wilson_interval(15, 148).high, 0.1605, 5e-5);
  EXPECT_EQ(wilson_interval(0, 20).low, 0);
  EXPECT_NEAR(wilson_interval(0, 20).high, 0.1611, 5e-5);
  EXPECT_NEAR(wilson_interval(1, 29).low, 0.0061, 5e-5);
  EXPECT_NEAR(wilson_interval(1, 29).high, 0.1718, 5e-5);
  EXPECT_EQ(wilson_interval(29, 29).high, 1);
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

TEST(Random, ValuesDependOnTheSeedAloneAndFillTheirRange) {
  const Tensor a = random_tensor(DType::f32, {1000}, 1);
  EXPECT_TRUE(a.same_bits(random_tensor(DType::f32, {10, 100}, 1).reshaped({1000})));
  EXPECT_FALSE(a.same_bits(random_tensor(DType::f32, {1000}, 2)));
  double sum = 0, low = 1, high = -1;
  for (double value : a.to_doubles()) sum += value, low = std::min(low, value), high = std::max(high, value);
  EXPECT_LT(std::abs(sum / 1000), 0.08);
  EXPECT_TRUE(low >= -1 && low < -0.98 && high < 1 && high > 0.98);
  for (int64_t value : random_tensor(DType::i64, {1000}, 3).to_ints()) EXPECT_TRUE(value >= 0 && value <= 9);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto values = random_tensor(DType(i), {64}, 4).to_doubles();
    EXPECT_NE(std::count(values.begin(), values.end(), values[0]), 64) << i;
  }
}

}  // namespace
}  // namespace temper
