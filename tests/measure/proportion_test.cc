// SPDX-License-Identifier: Apache-2.0
#include "measure/proportion.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

TEST(McNemar, ExactPIsTheBinomials) {
  // scipy.stats.binomtest(k, n).pvalue
  EXPECT_NEAR((McNemar{100, 3, 10}.p()), 0.092285, 1e-6);
  EXPECT_NEAR((McNemar{100, 10, 3}.p()), 0.092285, 1e-6);
  EXPECT_NEAR((McNemar{100, 0, 6}.p()), 0.03125, 1e-12);
  EXPECT_NEAR((McNemar{5000, 900, 1000}.p()), 0.023108, 2e-5);
  EXPECT_EQ((McNemar{100, 4, 4}.p()), 1);
  EXPECT_EQ((McNemar{100, 0, 0}.p()), 1);
}

TEST(McNemar, FewSamplesWithoutADifferenceProveLittle) {
  const Interval few = McNemar{5, 0, 0}.drop_interval(), many = McNemar{50000, 1000, 1000}.drop_interval(),
                 all = McNemar{2, 2, 0}.drop_interval();
  EXPECT_NEAR(few.high, 1.96 / 7, 1e-3);
  EXPECT_NEAR(few.low, -1.96 / 7, 1e-3);
  // 4 % of 50,000 differ: 0.18 points to either side.
  EXPECT_NEAR(many.high, 0.00175, 1e-5);
  EXPECT_LE(all.high, 1);
  EXPECT_EQ((McNemar{100, 3, 1}.drop()), 0.02);
}

}  // namespace
}  // namespace temper
