// SPDX-License-Identifier: Apache-2.0
#include "data/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "helpers.h"

namespace temper {
namespace {

#define EXPECT_FAILS(call, kind, part) EXPECT_CONTAINS(error_of(kind, [&] { call; }), part)

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(OutputDifference, FiguresAreThoseOfTheDefinition) {
  OutputDifference d;
  d.output = "y";
  d.add(Tensor::of<float>({2, 2}, {3, 4, 1, 0}), Tensor::of<float>({2, 2}, {3, 4, 0, 1}), std::vector<int64_t>{7, 11});
  EXPECT_EQ(d.samples, 2);
  EXPECT_DOUBLE_EQ(d.cosine(), 0.5);  // 1 and 0
  EXPECT_EQ(d.least_cosine, 0);
  EXPECT_EQ(d.least_cosine_sample, 11);
  EXPECT_DOUBLE_EQ(d.noise_share(), 2.0 / 26);
  EXPECT_NEAR(d.snr_db(), 11.139, 1e-3);
  EXPECT_EQ(d.max_difference, 1);
  EXPECT_EQ(d.max_sample, 11);
  EXPECT_EQ(d.largest, 4);
  EXPECT_EQ(d.difference_share(), 0.25);
  EXPECT_FAILS(d.add(Tensor::of<float>({1, 2}, {3, 4}), Tensor::of<float>({1, 1}, {3}), std::vector<int64_t>{12}),
               ErrorKind::unsupported, "output 'y'");
}

TEST(OutputDifference, WhatIsNotFiniteIsALossUnlessTheReferenceIsAlike) {
  OutputDifference same, lost;
  same.add(Tensor::of<float>({1, 3}, {kNan, INFINITY, 1}), Tensor::of<float>({1, 3}, {kNan, INFINITY, 1}),
           std::vector<int64_t>{0});
  EXPECT_EQ(same.max_difference, 0);
  EXPECT_EQ(same.noise_share(), 0);
  EXPECT_EQ(same.snr_db(), INFINITY);
  EXPECT_EQ(same.cosine(), 1);
  lost.add(Tensor::of<float>({1, 2}, {1, 1}), Tensor::of<float>({1, 2}, {1, kNan}), std::vector<int64_t>{0});
  EXPECT_EQ(lost.max_difference, INFINITY);
  EXPECT_EQ(lost.snr_db(), -INFINITY);
  EXPECT_EQ(lost.cosine(), 0);
  EXPECT_EQ(same.largest, 1);
  EXPECT_EQ(same.difference_share(), 0);
  EXPECT_EQ(lost.difference_share(), INFINITY);
}

TEST(OutputDifference, IntegersAndScalarsAreCompared) {
  OutputDifference d;
  d.add(Tensor::of<int64_t>({}, {7}), Tensor::of<int64_t>({}, {9}), std::vector<int64_t>{0, 1, 2, 3});
  EXPECT_EQ(d.max_difference, 2);
  EXPECT_EQ(d.samples, 1);
}

Batch labelled(std::vector<int64_t> labels) {
  Batch batch;
  batch.count = int64_t(labels.size());
  for (int64_t i = 0; i < batch.count; ++i) batch.samples.push_back(i);
  batch.labels = std::move(labels);
  return batch;
}

TEST(Evaluator, CountsWhatWasLostAndWon) {
  Evaluator evaluator({"scores"}, 0, true, true);
  const Tensor reference = Tensor::of<float>({4, 3}, {9, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9}),
               tested = Tensor::of<float>({4, 3}, {9, 0, 0, 0, 9, 0, 0, 0, 9, 0, kNan, 9});
  evaluator.add(labelled({0, 0, 2, 2}), {reference}, {tested});
  const Evaluation& e = evaluator.result();
  EXPECT_EQ(e.accuracy->top1, 2);
  EXPECT_EQ(e.reference_accuracy->top1, 3);
  EXPECT_EQ(e.mcnemar->lost, 2);
  EXPECT_EQ(e.mcnemar->won, 1);
  EXPECT_EQ(e.agreement->same, 1);
  EXPECT_EQ(drop_of(e, Metric::top1), 0.25);
  EXPECT_EQ(drop_of(e, Metric::agreement), 0.75);
  EXPECT_EQ(drop_of(e, Metric::snr), INFINITY);
  EXPECT_EQ(default_metric(e), Metric::top1);
}

TEST(Evaluator, ASequenceAgreesPositionByPosition) {
  const Tensor reference = Tensor::of<float>({2, 3, 2}, {9, 0, 0, 9, 9, 0, 0, 9, 9, 0, 0, 9}),
               tested = Tensor::of<float>({2, 3, 2}, {9, 0, 0, 9, 0, 9, 0, 9, 9, 0, 0, 9});
  Evaluator evaluator({"text"}, 0, false, true);
  Batch batch;
  batch.count = 2;
  batch.samples = {0, 1};
  evaluator.add(batch, {reference}, {tested});
  ASSERT_TRUE(evaluator.result().agreement);
  EXPECT_TRUE(evaluator.result().agreement->positions);
  EXPECT_EQ(evaluator.result().agreement->n, 6);
  EXPECT_EQ(evaluator.result().agreement->same, 5);
  Evaluator with_labels({"text"}, 0, true, true);
  EXPECT_FAILS(with_labels.add(labelled({0, 1}), {reference}, {tested}), ErrorKind::usage, "for each position");
}

TEST(Evaluator, ADropNeedsWhatItIsADropOf) {
  Evaluator evaluator({"map"}, -1, true, true);
  evaluator.add(labelled({0}), {Tensor::of<float>({1, 2}, {1, 2})}, {Tensor::of<float>({1, 2}, {1, 2})});
  EXPECT_FAILS(drop_of(evaluator.result(), Metric::top1), ErrorKind::usage, "right answers");
  EXPECT_FAILS(drop_of(evaluator.result(), Metric::agreement), ErrorKind::usage, "--output-name");
  EXPECT_EQ(drop_of(evaluator.result(), Metric::cosine), 0);
  EXPECT_FAILS(drop_of(Evaluation{}, Metric::snr), ErrorKind::usage, "a reference");
  EXPECT_FAILS(parse_metric("map50"), ErrorKind::usage, "there are top1");
}

TEST(ClassesOutput, IsTheOnlyOneOfAClassifiersType) {
  const TensorType scores = TensorType::parse("f32[batch,10]"), map = TensorType::parse("f32[batch,1,8,8]"),
                   one = TensorType::parse("f32[batch,1]");
  EXPECT_EQ(classes_output({"a", "b", "c"}, {map, scores, one}, ""), 1);
  EXPECT_EQ(classes_output({"a", "b"}, {scores, scores}, ""), -1);
  EXPECT_EQ(classes_output({"a", "b"}, {scores, scores}, "b"), 1);
  EXPECT_EQ(classes_output({"a"}, {map}, ""), -1);
  EXPECT_FAILS(classes_output({"a"}, {map}, "a"), ErrorKind::usage, "holds no classes");
  // Features look like answers for each position: those are taken by name alone.
  const TensorType text = TensorType::parse("f32[batch,40,97]");
  EXPECT_EQ(classes_output({"a"}, {text}, ""), -1);
  EXPECT_EQ(classes_output({"a"}, {text}, "a"), 0);
  EXPECT_FAILS(classes_output({"a"}, {map}, "z"), ErrorKind::usage, "it has: a");
}

TEST(Chance, WhatMayBeGuessingIsSaidWithItsIntervalAndWhatSurelyIsSurely) {
  Accuracy accuracy;
  accuracy.classes = 2;
  accuracy.n = 40;
  accuracy.top1 = 20;  // forty samples prove nothing
  EXPECT_CONTAINS(chance_warning(accuracy),
                  "20 of 40 right is 50.00 % (95 % interval 35.20 % to 64.80 %), which may be no better than guessing "
                  "among 2 classes (50.00 %)");
  EXPECT_CONTAINS(chance_warning(accuracy), "or give more samples");
  EXPECT_FALSE(only_guesses(accuracy));
  accuracy.n = 1000;
  accuracy.top1 = 500;
  EXPECT_CONTAINS(chance_warning(accuracy), "which is no better than guessing");
  EXPECT_TRUE(only_guesses(accuracy));
  accuracy.top1 = 600;
  EXPECT_EQ(chance_warning(accuracy), "");
  accuracy.classes = 10;
  accuracy.n = 100;
  accuracy.top1 = 12;  // the interval begins at 7 %
  EXPECT_CONTAINS(chance_warning(accuracy), "may be no better");
  accuracy.top1 = 0;
  EXPECT_TRUE(only_guesses(accuracy));
  accuracy.top1 = 20;
  EXPECT_EQ(chance_warning(accuracy), "");
  accuracy.classes = 2;
  accuracy.n = accuracy.top1 = 3;
  EXPECT_CONTAINS(chance_warning(accuracy), "3 samples are too few");
  EXPECT_FALSE(only_guesses(accuracy));
}

TEST(Overlap, TheSampleIsNamed) {
  Batch batch;
  batch.hashes = {5, 6};
  batch.names = {"a.png", "b.png"};
  EXPECT_NO_THROW(check_no_overlap({1, 2}, batch));
  EXPECT_FAILS(check_no_overlap({1, 6}, batch), ErrorKind::usage, "'b.png'");
}

}  // namespace
}  // namespace temper
