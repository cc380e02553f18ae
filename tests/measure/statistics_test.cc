// SPDX-License-Identifier: Apache-2.0
#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace temper {
namespace {

TEST(Statistics, MedianMeanAndDeviationOfKnownValues) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(mean({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(standard_deviation({2, 4, 4, 4, 5, 5, 7, 9}), std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(standard_deviation({5}), 0);
  EXPECT_THROW(median({}), Error);
  EXPECT_THROW(mean({}), Error);
}

TEST(Statistics, PercentileIsTheNearestRank) {
  std::vector<double> values;
  for (int i = 20; i >= 1; --i) values.push_back(i);
  EXPECT_DOUBLE_EQ(percentile(values, 0.95), 19);
  EXPECT_DOUBLE_EQ(percentile(values, 0.951), 20);
  EXPECT_DOUBLE_EQ(percentile(values, 0.05), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 20);
  EXPECT_THROW(percentile(values, 0), Error);
  EXPECT_THROW(percentile(values, 99), Error);
}

TEST(Statistics, PercentileWithoutEnoughSamplesIsAbsentWithTheReason) {
  EXPECT_EQ(samples_needed(0.5), 7);
  EXPECT_EQ(samples_needed(0.9), 44);
  EXPECT_EQ(samples_needed(0.95), 90);
  EXPECT_EQ(samples_needed(0.99), 459);
  std::vector<double> values(458, 1.0);
  EXPECT_FALSE(reliable_percentile(values, 0.99).value);
  EXPECT_EQ(reliable_percentile(values, 0.99).reason, "n/a (needs ≥ 459 samples)");
  values.push_back(2);
  EXPECT_EQ(reliable_percentile(values, 0.99).value, 1.0);
}

TEST(Statistics, MedianIntervalHasTheRanksOfTheBinomial) {
  std::vector<double> values;
  for (int i = 1; i <= 5; ++i) values.push_back(i);
  EXPECT_FALSE(median_interval(values));  // 1 - 2/32 = 93.75 %
  values.push_back(6);
  EXPECT_DOUBLE_EQ(median_interval(values)->low, 1);
  EXPECT_DOUBLE_EQ(median_interval(values)->high, 6);
  for (int i = 7; i <= 20; ++i) values.push_back(i);  // table of the sign test: ranks 6 and 15 at n = 20
  EXPECT_DOUBLE_EQ(median_interval(values)->low, 6);
  EXPECT_DOUBLE_EQ(median_interval(values)->high, 15);
  values.clear();
  for (int i = 1; i <= 10000; ++i) values.push_back(i);  // normal approximation: 5000.5 -+ 0.98 sqrt(n)
  EXPECT_NEAR(median_interval(values)->low, 5000.5 - 98, 1);
  EXPECT_NEAR(median_interval(values)->high, 5000.5 + 98, 1);
}

struct Distribution {
  const char* name;
  double true_median;
  std::function<double(std::mt19937_64&)> draw;
};

std::vector<Distribution> distributions() {
  return {{"lognormal", std::exp(1.0), [](auto& r) { return std::lognormal_distribution<>(1, 0.8)(r); }},
          {"exponential", std::log(2.0), [](auto& r) { return std::exponential_distribution<>(1)(r); }},
          // Seven of ten runs quick, three of ten slow: the median is the 5/7 quantile of the quick mode.
          {"bimodal", 1 + 0.1 * 5 / 7, [](auto& r) {
             std::uniform_real_distribution<> u(0, 1);
             return u(r) < 0.7 ? 1 + 0.1 * u(r) : 2 + 0.1 * u(r);
           }}};
}

TEST(Statistics, MedianIntervalCoversTheTrueMedianOfSkewedAndBimodalTimes) {
  std::mt19937_64 random(7);
  for (const auto& [name, true_median, draw] : distributions())
    for (int n : {10, 50, 200}) {
      int covered = 0;
      for (int trial = 0; trial < 1000; ++trial) {
        std::vector<double> values(static_cast<size_t>(n));
        for (double& value : values) value = draw(random);
        const auto interval = median_interval(values);
        covered += interval->low <= true_median && true_median <= interval->high;
      }
      EXPECT_GE(covered, 930) << name << " n=" << n;
    }
}

TEST(Statistics, BootstrapIntervalCoversTheTrueMedianAndIsReproducible) {
  std::mt19937_64 random(11);
  for (const auto& [name, true_median, draw] : distributions()) {
    int covered = 0;
    for (int trial = 0; trial < 1000; ++trial) {
      std::vector<double> values(61);
      for (double& value : values) value = draw(random);
      const auto interval = bootstrap_interval(values, [](const auto& v) { return median(v); }, 0.95, 300);
      covered += interval->low <= true_median && true_median <= interval->high;
    }
    EXPECT_GE(covered, 915) << name;  // its true coverage at this size is about 94 %: three deviations below
    EXPECT_LE(covered, 970) << name;
  }
  const std::vector<double> values = {1, 2, 3, 5, 8, 13};
  const auto a = bootstrap_interval(values, mean), b = bootstrap_interval(values, mean);
  EXPECT_EQ(a->low, b->low);
  EXPECT_EQ(a->high, b->high);
  EXPECT_LT(a->low, mean(values));
  EXPECT_GT(a->high, mean(values));
  EXPECT_FALSE(bootstrap_interval({1}, mean));
}

}  // namespace
}  // namespace temper
