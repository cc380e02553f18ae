// SPDX-License-Identifier: Apache-2.0
#include "data/judge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "helpers.h"

namespace temper {
namespace {

// Of `n` answers `lost` have another best class; the output's noise is `noise` of the signal.
Evaluation evaluation(int64_t n, int64_t lost, double noise, double cosine) {
  Evaluation e;
  e.samples = n;
  e.agreement = Agreement{n, n - lost};
  OutputDifference& d = e.differences.emplace_back();
  d.output = "y";
  d.samples = n;
  d.signal = 1, d.noise = noise;
  d.cosine_sum = cosine * double(n);
  return e;
}

TEST(Judge, AgreementAloneDoesNotMakeAnswersGood) {
  // Every one of 20 samples keeps its class, in outputs that are wrecked.
  const Judgement wrecked = judge(evaluation(20, 0, 0.068, 0.96), {}, {});
  EXPECT_EQ(wrecked.metric, Metric::agreement);
  EXPECT_EQ(wrecked.drop, 0);
  EXPECT_FALSE(wrecked.near);
  EXPECT_FALSE(wrecked.holds);
  EXPECT_EQ(far_text(wrecked), "SNR 11.7 dB and cosine 0.96, where 17 dB and 0.99 are asked for");
  EXPECT_FALSE(judge(evaluation(1000, 0, 0.068, 0.96), {}, 0.01).holds);
  EXPECT_FALSE(judge(evaluation(1000, 0, 0.001, 0.98), {}, 0.01).holds) << "by the cosine";
  EXPECT_TRUE(judge(evaluation(1000, 0, 0.001, 0.999), {}, 0.01).holds);
  EXPECT_FALSE(judge(evaluation(1000, 20, 0.001, 0.999), {}, 0.01).holds) << "over the budget";
  EXPECT_TRUE(judge(evaluation(1000, 20, 0.001, 0.999), {}, {}).holds) << "no budget";
  EXPECT_EQ(far_text(judge(evaluation(1000, 20, 0.001, 0.999), {}, 0.01)), "");
}

TEST(Judge, ABudgetInNoiseSaysItselfHowFarIsAllowed) {
  EXPECT_TRUE(judge(evaluation(100, 0, 0.04, 0.98), Metric::snr, 0.05).holds);
  EXPECT_FALSE(judge(evaluation(100, 0, 0.06, 0.98), Metric::snr, 0.05).holds);
  EXPECT_FALSE(judge(evaluation(100, 0, 0.04, 0.98), Metric::snr, {}).holds);
  EXPECT_TRUE(judge(evaluation(100, 0, 0.04, 0.98), Metric::cosine, 0.03).holds);
  EXPECT_FALSE(judge(evaluation(100, 0, INFINITY, 0), Metric::cosine, 0.03).holds);
}

TEST(Judge, ABudgetInTheLargestDifferenceIsAShareOfTheLargestValueOfTheWorstOutput) {
  Evaluation e = evaluation(100, 0, 1e-6, 1);
  e.differences.push_back(e.differences[0]);
  e.differences[0].max_difference = 3, e.differences[0].largest = 1000;
  e.differences[1].max_difference = 0.5, e.differences[1].largest = 10;
  EXPECT_EQ(drop_of(e, Metric::difference), 0.05);
  EXPECT_TRUE(judge(e, Metric::difference, 0.06).holds);
  EXPECT_FALSE(judge(e, Metric::difference, 0.04).holds);
  EXPECT_TRUE(judge(e, Metric::snr, 0.04).holds) << "few elements are wrong";
  Evaluation joined = evaluation(100, 0, 1e-6, 1);
  joined.differences.push_back(joined.differences[0]);
  joined.differences[1].max_difference = 0.1, joined.differences[1].largest = 20;
  join(joined, e);
  EXPECT_EQ(drop_of(joined, Metric::difference), 0.025) << "of the largest value of all samples";
  EXPECT_EQ(parse_metric("difference"), Metric::difference);
}

TEST(Judge, NoDropIsNeverShownWithoutWhatTheSamplesCouldTell) {
  EXPECT_EQ(drop_text(judge(evaluation(20, 0, 0, 1), {}, {})), "at most 16.11 % (20 answers; 381 would tell 1.00 %)");
  EXPECT_EQ(drop_text(judge(evaluation(500, 0, 0, 1), {}, {})), "0.00 % (0.00 to 0.76 %)");
  EXPECT_EQ(drop_text(judge(evaluation(500, 0, 0, 1), {}, 0.005), 0.005),
            "at most 0.76 % (500 answers; 765 would tell 0.50 %)");
  EXPECT_EQ(drop_text(judge(evaluation(500, 0, 0, 1), {}, 0.0), 0.0), "0.00 % (0.00 to 0.76 %)");
  EXPECT_EQ(drop_text(judge(evaluation(20, 3, 0, 1), {}, {})), "15.00 % (5.24 to 36.04 %)");
  EXPECT_EQ(drop_text(judge(evaluation(20, 3, 0.0123, 1), Metric::snr, {})), "1.23 %");
}

TEST(Judge, TheAnswersThatTellAreTheFewestThatDo) {
  for (const double drop : {0.001, 0.005, 0.01, 0.2}) {
    const int64_t n = answers_to_tell(Metric::agreement, drop), pairs = answers_to_tell(Metric::top1, drop);
    EXPECT_LE(1 - wilson_interval(n, n).low, drop + 1e-12);
    EXPECT_GT(1 - wilson_interval(n - 1, n - 1).low, drop);
    EXPECT_LE((McNemar{pairs, 0, 0}.drop_interval().high), drop + 1e-12);
    EXPECT_GT((McNemar{pairs - 1, 0, 0}.drop_interval().high), drop);
  }
}

}  // namespace
}  // namespace temper
