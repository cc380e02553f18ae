// SPDX-License-Identifier: Apache-2.0
#include "base/small_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace temper {
namespace {

TEST(Float8, EveryCodeIsItsNumberAndComesBack) {
  for (int code = 0; code < 256; ++code) {
    const float want = value_of_code(DType::f8e4m3fn, uint8_t(code)), got = e4m3_to_float(uint8_t(code));
    EXPECT_EQ(std::isnan(got), std::isnan(want)) << code;
    if (!std::isnan(want)) { EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << code; }
    EXPECT_EQ(float_to_e4m3(got), code);
  }
}

// By the distances to all of them; of two at the same the even one.
uint8_t nearest(float value) {
  int best = 0;
  for (int code = 0; code < 127; ++code) {
    const auto distance = [&](int c) {
      return std::fabs(std::fabs(double(value)) - double(e4m3_to_float(uint8_t(c))));
    };
    if (distance(code) < distance(best) || (distance(code) == distance(best) && code % 2 == 0)) best = code;
  }
  return uint8_t(best | (std::signbit(value) ? 0x80 : 0));
}

TEST(Float8, NumbersBecomeTheNearestOfThemAndAtMost448) {
  std::vector<float> values{0.0f, -0.0f, 448, 463.9f, 464, 480, 1e30f, -INFINITY, 0x1p-10f, 0x1.000002p-10f, 1e-40f};
  for (int code = 0; code < 126; ++code) {  // ties, and beside them
    const float tie = (e4m3_to_float(uint8_t(code)) + e4m3_to_float(uint8_t(code + 1))) / 2;
    for (float x : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)})
      values.push_back(x), values.push_back(-x);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const float x = std::bit_cast<float>(uint32_t(random()));
    if (!std::isnan(x)) values.push_back(x);
    values.push_back(std::ldexp(float(random() % 1000) - 500, int(random() % 24) - 18));
  }
  for (float x : values) EXPECT_EQ(float_to_e4m3(x), nearest(x)) << x;
  EXPECT_EQ(float_to_e4m3(NAN) & 0x7f, 0x7f);
}

}  // namespace
}  // namespace temper
