// SPDX-License-Identifier: Apache-2.0
// Each second counts for one part.
#include "base/time_spent.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

TEST(TimeSpent, CountsForTheInnermostPartAlone) {
  double now = 100;
  TimeSpent spent([&] { return now; });
  now += 7;  // in no part
  {
    const TimeSpent::In passes(&spent, "passes");
    now += 1;
    {
      const TimeSpent::In timing(&spent, "timing");
      now += 2;
      const TimeSpent::In again(&spent, "passes");
      now += 0.25;
    }
    now += 4;
    EXPECT_EQ(spent.text(), "passes 5.25 s, timing 2 s");
  }
  now += 50;
  const TimeSpent::In timing(&spent, "timing");
  now += 0.5;
  EXPECT_EQ(spent.parts(), (std::vector<std::pair<std::string, double>>{{"passes", 5.25}, {"timing", 2.5}}));
  const TimeSpent::In nobody(nullptr, "passes");
}

}  // namespace
}  // namespace temper
