// SPDX-License-Identifier: Apache-2.0
#include "optimize/saved_times.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

// A precision whose second build measures what it is told to doubt.
struct Scripted {
  LayerTimes first, second;
  std::vector<std::set<std::string>> asked;
  TimedBuild build() {
    return [this](const std::set<std::string>& doubted) {
      asked.push_back(doubted);
      return doubted.empty() ? first : second;
    };
  }
};
LayerTimes times(double a, double b, const std::string& precision) {
  return {{{"a", a}, {"b", b}}, {{"a", {"conv a " + precision}}, {"b", {"conv b " + precision}}}};
}

TEST(SavedTimes, ALayerThatInt8MakesSlowerIsTimedAgainInBothPrecisions) {
  Scripted fp32{times(1, 1, "f32"), times(1, 1, "f32"), {}}, int8{times(0.5, 2, "i8"), times(0.5, 0.4, "i8"), {}};
  const SavedTimes saved = saved_by(int8.build(), fp32.build());
  ASSERT_EQ(int8.asked.size(), 2u);
  EXPECT_EQ(int8.asked[1], (std::set<std::string>{"conv b f32", "conv b i8"}));
  EXPECT_EQ(fp32.asked, int8.asked);
  EXPECT_TRUE(saved.slower.empty());
  EXPECT_DOUBLE_EQ(saved.ms.at("b"), 0.6);
}

TEST(SavedTimes, WhatStaysSlowerIsNamedTheWorstFirst) {
  Scripted fp32{times(1, 1, "f32"), times(1, 1, "f32"), {}}, int8{times(1.5, 2, "i8"), times(1.5, 2, "i8"), {}};
  EXPECT_EQ(saved_by(int8.build(), fp32.build()).slower, (std::vector<std::string>{"b", "a"}));
}

TEST(SavedTimes, NothingIsTimedAgainAmongOthersOrForDifferencesThatDoNotMatter) {
  Scripted fp32{times(1, 1, "f32"), {}, {}}, int8{times(0.5, 2, "i8"), {}, {}}, near{times(1.04, 0.5, "i8"), {}, {}};
  int8.first.quiet = false;
  EXPECT_EQ(saved_by(int8.build(), fp32.build()).slower, std::vector<std::string>{"b"});
  EXPECT_EQ(int8.asked.size(), 1u);
  EXPECT_TRUE(saved_by(near.build(), fp32.build()).slower.empty());
  EXPECT_EQ(near.asked.size(), 1u);
}

}  // namespace
}  // namespace temper
