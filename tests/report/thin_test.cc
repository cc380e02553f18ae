// SPDX-License-Identifier: Apache-2.0
#include "report/thin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace temper {
namespace {

TEST(Thin, FewValuesStayAndOfManyTheExtremesAndTheRanks) {
  std::vector<double> values;
  for (int i = 0; i < 10000; ++i) values.push_back(double(i * 7919 % 10000));
  const auto dots = dots_of(values, false);
  EXPECT_EQ(dots.size(), 300u);
  EXPECT_EQ(dots.front().value, 0);
  EXPECT_EQ(dots.back().value, 9999);
  // Ranks never jump by much more than in the middle, and ever less towards the ends: no gap that the samples do not
  // have.
  for (size_t i = 1; i < dots.size(); ++i) {
    EXPECT_GT(dots[i].value, dots[i - 1].value);
    EXPECT_LT(dots[i].value - dots[i - 1].value, 40) << i;
  }
  EXPECT_LE(dots[3].value, 5);
  // Every tenth of the values has its tenth of the dots in the middle.
  for (int tenth = 1; tenth < 9; ++tenth) {
    const auto inside = std::count_if(dots.begin(), dots.end(), [&](const Dot& d) {
      return d.value >= 1000 * tenth && d.value < 1000 * (tenth + 1);
    });
    EXPECT_NEAR(double(inside), 28, 2) << tenth;
  }
  EXPECT_EQ(dots_of({3, 1, 2}, true).size(), 3u);
  EXPECT_TRUE(dots_of({}, false).empty());
  EXPECT_EQ(dots_of({5, 5, 5}, false)[0].value, 5);
}

TEST(Thin, TwoModesAreTwoBulges) {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(1 + 1e-3 * (i % 20)), values.push_back(2 + 1e-3 * (i % 20));
  for (int i = 0; i < 10; ++i) values.push_back(1.1 + 0.09 * i);
  values.push_back(50);
  double at_modes = 0, between = 0, far = 0;
  for (const Dot& dot : dots_of(values, false)) {
    EXPECT_LE(std::abs(dot.offset), 1);
    double& widest = dot.value > 10 ? far : dot.value > 1.05 && dot.value < 1.95 ? between : at_modes;
    widest = std::max(widest, std::abs(dot.offset));
  }
  EXPECT_GT(at_modes, 0.6);
  EXPECT_LT(between, 0.35);
  EXPECT_LE(far, 0.1);
}

TEST(Thin, StretchesKeepOrderSlowestAndCount) {
  std::vector<double> values(1001, 1);
  values[500] = 9;
  const auto stretches = stretches_of(values, 100);
  ASSERT_EQ(stretches.size(), 100u);
  size_t total = 0;
  double slowest = 0;
  for (size_t i = 0; i < stretches.size(); ++i) {
    total += stretches[i].count;
    slowest = std::max(slowest, stretches[i].max);
    EXPECT_EQ(stretches[i].median, 1);
    if (i > 0) { EXPECT_GT(stretches[i].place, stretches[i - 1].place); }
  }
  EXPECT_EQ(total, values.size());
  EXPECT_EQ(slowest, 9);
  EXPECT_EQ(stretches_of({4, 5}).size(), 2u);
}

}  // namespace
}  // namespace temper
