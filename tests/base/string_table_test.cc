// SPDX-License-Identifier: Apache-2.0
#include "base/string_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace temper {
namespace {

TEST(StringTable, EqualStringsHaveOneCodeAndTheEmptyOneIsZero) {
  StringTable table;
  const uint64_t a = table.code_of("a"), b = table.code_of("b");
  EXPECT_EQ(table.code_of(""), 0u);
  EXPECT_EQ(table.code_of("a"), a);
  EXPECT_NE(a, b);
  EXPECT_EQ(table.at(a), "a");
  EXPECT_EQ(table.at(0), "");
  const std::string with_zero("x\0y", 3);
  EXPECT_EQ(table.at(table.code_of(with_zero)), with_zero);
  EXPECT_NE(table.code_of(with_zero), table.code_of("x"));
}

TEST(StringTable, ACodeThatTheTableDidNotGiveIsAnError) {
  StringTable table;
  const uint64_t a = table.code_of("a");
  EXPECT_THROW(table.at(a + 1), Error);
  EXPECT_THROW(table.at(UINT64_MAX), Error);
  table.clear();
  EXPECT_THROW(table.at(a), Error);
  EXPECT_EQ(table.at(0), "");
}

TEST(StringTable, StringsOfOneRunHaveALimit) {
  StringTable table;
  std::string half(size_t(kMostStringBytes / 2), 'x');
  table.code_of(half);
  half[0] = 'y';
  EXPECT_THROW(table.code_of(half), Error);
  table.clear();
  EXPECT_NO_THROW(table.code_of(half));
}

TEST(StringTable, EachThreadReadsTheTableThatItUsesAndTheProcesssOtherwise) {
  StringTable outer, inner;
  const UseStrings uses_outer(outer);
  {
    const UseStrings uses_inner(inner);
    EXPECT_EQ(&current_strings(), &inner);
  }
  EXPECT_EQ(&current_strings(), &outer);
  const StringTable* elsewhere = nullptr;
  std::thread([&] { elsewhere = &current_strings(); }).join();
  EXPECT_NE(elsewhere, &outer);
}

TEST(StringTable, WhatIsKeptOutlivesARunAndFreeCodesAreUsedAgain) {
  StringTable table;
  const uint64_t loose = table.code_of("loose"), early = table.code_of("kept later"), kept = table.kept_code_of("kept");
  EXPECT_EQ(table.kept_code_of("kept later"), early);
  const char* const address = table.at(kept).data();
  table.clear();
  EXPECT_THROW(table.at(loose), Error);
  EXPECT_EQ(table.at(kept).data(), address);
  EXPECT_EQ(table.at(early), "kept later");
  EXPECT_EQ(table.code_of("kept"), kept);
  EXPECT_EQ(table.code_of("another"), loose);
  table.clear();
  EXPECT_EQ(table.at(kept), "kept");
}

TEST(StringTable, NoTwoHaveOneId) {
  uint64_t first = 0;
  {
    const StringTable table;
    first = table.id();
  }
  const StringTable table;
  EXPECT_NE(first, 0u);
  EXPECT_NE(table.id(), first);
}

TEST(StringTable, StringsStayWhereTheyAreWhileMoreCome) {
  StringTable table;
  const uint64_t first = table.code_of("the first");
  const char* const address = table.at(first).data();
  for (int i = 0; i < 10000; ++i) table.code_of(std::to_string(i));
  EXPECT_EQ(table.at(first).data(), address);
  EXPECT_EQ(table.code_of("the first"), first);
}

}  // namespace
}  // namespace temper
