// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace temper {
namespace {

TEST(Parse, ANumberIsAllOfTheText) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_number<double>("2.5e-3"), 2.5e-3);
  EXPECT_EQ(parse_number<uint32_t>("fF", 16), 255u);
  EXPECT_TRUE(std::isnan(*parse_number<double>("nan")));
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "0x10", "1.5", "-", "99999999999"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<uint32_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1,5"), std::nullopt);
}

TEST(Parse, WhatFollowsALeadingNumberIsTold) {
  const auto size = parse_leading<int64_t>("64MiB");
  ASSERT_TRUE(size);
  EXPECT_EQ(size->value, 64);
  EXPECT_EQ(size->rest, "MiB");
  EXPECT_EQ(parse_leading<double>("0.5%")->rest, "%");
  EXPECT_FALSE(parse_leading<int>("MiB"));
  EXPECT_FALSE(parse_leading<int>("99999999999 bytes")) << "int does not hold it";
}

}  // namespace
}  // namespace temper
