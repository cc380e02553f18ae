// SPDX-License-Identifier: Apache-2.0
#include "video/regions.h"

#include <gtest/gtest.h>

#include <cmath>

namespace temper::video {
namespace {

std::vector<float> map_of(const std::vector<std::string>& rows) {  // digits are tenths
  std::vector<float> scores;
  for (const std::string& row : rows)
    for (const char c : row) scores.push_back(c == '?' ? NAN : float(c - '0') / 10);
  return scores;
}

TEST(Regions, TouchingPixelsAreOneAndTheirScoresAreAveraged) {
  const std::vector<float> scores = map_of({
      "0900000",
      "0080000",
      "0000066",
      "0000066",
  });
  const auto regions = find_regions(scores.data(), 4, 7, 0.3, 1);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].left, 1);  // joined over a corner
  EXPECT_EQ(regions[0].top, 0);
  EXPECT_EQ(regions[0].right, 3);
  EXPECT_EQ(regions[0].bottom, 2);
  EXPECT_NEAR(regions[0].score, 0.85, 1e-6);
  EXPECT_EQ(regions[1].left, 5);
  EXPECT_EQ(regions[1].bottom, 4);
  EXPECT_EQ(find_regions(scores.data(), 4, 7, 0.3, 3).size(), 1u);  // two pixels are too few
  EXPECT_EQ(find_regions(scores.data(), 4, 7, 0.95, 1).size(), 0u);
}

TEST(Regions, WhatIsNoNumberAndWhatEqualsTheThresholdIsOutside) {
  const std::vector<float> scores = map_of({"?5?", "???"});
  EXPECT_EQ(find_regions(scores.data(), 2, 3, 0.5, 1).size(), 0u);
  EXPECT_EQ(find_regions(scores.data(), 2, 3, 0.4, 1).size(), 1u);
  EXPECT_EQ(find_regions(scores.data(), 0, 3, 0.4, 1).size(), 0u);
}

TEST(Regions, PixelsAnywhereInALongRowAreFound) {
  for (int64_t at = 0; at < 200; ++at) {
    std::vector<float> scores(200, 0.25f);
    scores[size_t(at)] = 0.5f;
    const auto regions = find_regions(scores.data(), 1, 200, 0.3, 1);
    ASSERT_EQ(regions.size(), 1u) << at;
    EXPECT_EQ(regions[0].left, double(at));
    EXPECT_EQ(regions[0].right, double(at + 1));
  }
  // 0.3 is between two floats: what is just above it as a float counts, what is just below does not.
  const std::vector<float> near{0.3f, std::nextafter(0.3f, 0.0f)};
  EXPECT_EQ(find_regions(near.data(), 1, 2, 0.3, 1).size(), 1u);
  EXPECT_EQ(find_regions(near.data() + 1, 1, 1, 0.3, 1).size(), 0u);
}

TEST(Regions, AMapThatIsOneRegionIsFoundWithoutRecursion) {
  const std::vector<float> scores(size_t(1000) * 1000, 1.0f);
  const auto regions = find_regions(scores.data(), 1000, 1000, 0.3, 4);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].right, 1000);
  EXPECT_EQ(regions[0].score, 1);
}

}  // namespace
}  // namespace temper::video
