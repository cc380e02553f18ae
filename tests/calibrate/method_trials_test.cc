// SPDX-License-Identifier: Apache-2.0
#include "calibrate/method_trials.h"

#include <gtest/gtest.h>

#include <set>

namespace temper {
namespace {

// The numbers of the samples that are held after `count` came.
std::vector<int64_t> held_of(int64_t count, uint64_t seed) {
  HoldApart apart(seed);
  std::vector<int64_t> held;
  for (int64_t sample = 0; sample < count; ++sample) {
    const int64_t place = apart.place();
    if (place < 0) continue;
    if (place == int64_t(held.size())) held.push_back(sample);
    else held.at(size_t(place)) = sample;
  }
  return held;
}

TEST(HoldApart, OneOfEveryFiveIsHeldWhateverTheirNumber) {
  for (int64_t count : {10, 100, 2500}) {
    const std::vector<int64_t> held = held_of(count, 7);
    ASSERT_EQ(int64_t(held.size()), count / 5);
    for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(held[i] / 5, int64_t(i));
  }
  EXPECT_EQ(held_of(1000, 7), held_of(1000, 7));
  EXPECT_NE(held_of(1000, 7), held_of(1000, 8));
}

TEST(HoldApart, AtMost500AreHeldFromTheWholeOfALongStream) {
  const std::vector<int64_t> held = held_of(100000, 1);
  ASSERT_EQ(held.size(), 500u);
  EXPECT_EQ(std::set<int64_t>(held.begin(), held.end()).size(), 500u);
  std::vector<int> quarters(4);
  for (int64_t sample : held) ++quarters[size_t(sample / 25000)];
  for (int count : quarters) EXPECT_NEAR(count, 125, 45) << "over four deviations of the binomial distribution";
}

TEST(FreshSamples, CopiesOfWhatWasCalibratedOnAreLeftOut) {
  EXPECT_EQ(fresh_samples({9, 3, 5}, std::vector<uint64_t>{5, 1, 9, 2}), (std::vector<size_t>{1, 3}));
  EXPECT_TRUE(fresh_samples({9, 3, 5}, std::vector<uint64_t>{5, 3}).empty());
}

}  // namespace
}  // namespace temper
