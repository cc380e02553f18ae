// SPDX-License-Identifier: Apache-2.0
#include "data/csv.h"

#include "data/labels.h"
#include "helpers.h"

namespace temper {
namespace {

using Values = std::vector<double>;
using Labels = std::vector<int64_t>;

TEST(Csv, RowsWithoutAHeaderAreAllValues) {
  const CsvTable table = parse_csv("1,2,3\r\n-4.5, 5e2 ,\"6\"\r\n\r\n");
  EXPECT_EQ(table.rows, 2);
  EXPECT_EQ(table.columns, 3);
  EXPECT_EQ(table.values, (Values{1, 2, 3, -4.5, 500, 6}));
  EXPECT_TRUE(table.labels.empty());
}

TEST(Csv, ALabelColumnIsFoundByItsHeaderOrItsPlace) {
  const CsvTable named = parse_csv(
      "\xef\xbb\xbf"
      "0,label,1\n1,7,3\n4,8,6\n");
  EXPECT_EQ(named.values, (Values{1, 3, 4, 6}));
  EXPECT_EQ(named.labels, (Labels{7, 8}));
  EXPECT_EQ(parse_csv("1,2\n3,4", "first").labels, (Labels{1, 3}));
  EXPECT_EQ(parse_csv("1,2\n3,4", "last").labels, (Labels{2, 4}));
  EXPECT_EQ(parse_csv("a,\"the \"\"class\"\"\"\n3,4", "the \"class\"").labels, Labels{4});
  EXPECT_EQ(parse_csv("a,label\n3,4", "none").values, (Values{3, 4}));
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { parse_csv("a,b\n1,2", "c"); }), "'c'");
}

TEST(Csv, WhatIsWrongIsNamedByRowAndColumn) {
  const auto refused = [](std::string_view text, const std::string& label = "") {
    return error_of(ErrorKind::bad_file, [&] { parse_csv(text, label); });
  };
  EXPECT_CONTAINS(refused("1,2\n3,x\n"), "row 2, column 2: 'x'");
  EXPECT_CONTAINS(refused("1,oops\n3,4\n"), "row 1, column 2: 'oops'");
  EXPECT_CONTAINS(refused("a,b\n3,4\n\n5,6"), "row 3");
  EXPECT_CONTAINS(refused("1,2\n3\n"), "row 2 has 1 fields; row 1 has 2");
  for (std::string_view bad : {"0x10", "1.5abc", "nan", "inf", "1e999", "+1", "", "--1", "1 2"})
    EXPECT_CONTAINS(refused(concat("1,2\n3,", bad, "\n4,5")), "row 2, column 2");
  EXPECT_CONTAINS(refused("1;2\n3;4\n"), "separated by commas");
  EXPECT_CONTAINS(refused("1,2\n3,\"4\n"), "quote");
  EXPECT_CONTAINS(refused("1,2\n3,\"4\"5\n"), "row 2, column 2: text after");
  EXPECT_CONTAINS(refused("1,2.5\n", "last"), "label");
  EXPECT_CONTAINS(refused("1,-2\n", "last"), "label");
  EXPECT_CONTAINS(refused("\n\n"), "empty table");
  EXPECT_CONTAINS(refused("a,b\n"), "no rows");
  EXPECT_CONTAINS(refused("label\n1\n"), "no values");
}

TEST(Csv, ARowWithFarTooManyFieldsIsRefusedWhileItIsRead) {
  std::string row = "1";
  for (int i = 0; i < 1'000'000; ++i) row += ",1";
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { parse_csv(row, "", 1000); }), "row 1 has more than 1000 fields");
  EXPECT_EQ(parse_csv(row).columns, 1'000'001);
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { parse_csv("1,2\n" + row, "", 1000); }),
                  "row 2 has more than 1000 fields");
}

TEST(Csv, DamageEndsInAnErrorThatNamesTheFile) {
  const std::string folder = test_folder();
  std::string text = "a,b,label\n";
  for (int i = 0; i < 20; ++i) text += concat(i, ",\"", i * 0.5, "\",", i % 3, "\n");
  EXPECT_GT(damage(folder + "x.csv", text, 1, [](const std::string& path) { read_csv(path); }),
            0);  // some changes only give other numbers
}

TEST(Labels, ClassNamesAreLinesAndControlCharactersAreRefused) {
  const std::string folder = test_folder();
  write_text(folder + "names.txt", "cat\r\nbig dog\n\nb\xc3\xa4r\n\n");
  EXPECT_EQ(read_class_names(folder + "names.txt"), (std::vector<std::string>{"cat", "big dog", "", "b\xc3\xa4r"}));
  write_text(folder + "empty.txt", "\n");
  write_text(folder + "escape.txt", "cat\n\x1b[2J\n");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_class_names(folder + "empty.txt"); }), "empty.txt");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_class_names(folder + "escape.txt"); }), "line 2");
}

}  // namespace
}  // namespace temper
