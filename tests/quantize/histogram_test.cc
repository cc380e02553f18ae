// SPDX-License-Identifier: Apache-2.0
#include "quantize/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace temper {
namespace {

std::vector<float> wide_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> power(-30, 30);
  std::vector<float> values(count);
  for (float& v : values) v = random() % 8 == 0 ? 0 : std::exp2(power(random)) * (random() % 2 ? 1.0f : -1.0f);
  return values;
}

TEST(Histogram, EachValueIsInTheBinThatItsDefinitionNames) {
  const auto values = wide_values(3000, 1);
  Histogram h;
  h.add(values);
  std::vector<uint64_t> expected(Histogram::kBins);
  uint64_t zeros = 0;
  for (float v : values)
    if (v == 0) ++zeros;
    else ++expected[size_t(std::floor(std::fabs(double(v)) / h.bin_width()))];
  EXPECT_EQ(h.counts, expected);
  EXPECT_EQ(h.zeros, zeros);
  EXPECT_EQ(h.total(), values.size());
  EXPECT_GT(h.used(), Histogram::kBins / 2);
}

TEST(Histogram, NeitherOrderNorSplittingChangesIt) {
  auto values = wide_values(3000, 2);
  Histogram whole;
  whole.add(values);
  for (size_t piece : {1u, 7u, 1000u}) {
    std::shuffle(values.begin(), values.end(), std::mt19937(uint32_t(piece)));
    Histogram streamed, joined;
    for (size_t at = 0; at < values.size(); at += piece) {
      const std::span<const float> part(values.data() + at, std::min(piece, values.size() - at));
      streamed.add(part);
      Histogram own;
      own.add(part);
      joined.merge(own);
    }
    EXPECT_TRUE(streamed == whole) << piece;
    EXPECT_TRUE(joined == whole) << piece;
  }
}

TEST(Histogram, TheWholeRangeOfFloatsFits) {
  const float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  Histogram small, large;
  small.add(std::vector<float>{least});
  EXPECT_EQ(small.exponent, Histogram::kLeastExponent);
  large.add(std::vector<float>{-largest});
  EXPECT_EQ(large.exponent, Histogram::kMostExponent);
  small.merge(large);
  EXPECT_EQ(small.counts[0], 1u);
  EXPECT_EQ(small.counts[Histogram::kBins - 1], 1u);
}

TEST(Histogram, ZerosAloneNeedNoBins) {
  Histogram h;
  h.add(std::vector<float>{0, -0.0f});
  EXPECT_EQ(h.zeros, 2u);
  EXPECT_TRUE(h.counts.empty());
  EXPECT_EQ(h.used(), 0);
}

}  // namespace
}  // namespace temper
