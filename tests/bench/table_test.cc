// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/results.h"

namespace temper {
namespace {

const Table kTable = {{{"name", false}, {"ms"}}, {{"é|a", "1.5"}, {"long, \"name\"", "10"}}};

TEST(Table, TerminalColumnsAreAlignedByCodePoints) {
  EXPECT_EQ(terminal_table(kTable),
            "name           ms\n"
            "é|a           1.5\n"
            "long, \"name\"   10\n");
}

TEST(Table, MarkdownEscapesBarsAndAlignsNumbers) {
  EXPECT_EQ(markdown_table(kTable), "| name | ms |\n| --- | ---: |\n| é\\|a | 1.5 |\n| long, \"name\" | 10 |\n");
}

TEST(Table, CsvQuotesCellsThatNeedIt) { EXPECT_EQ(csv_table(kTable), "name,ms\né|a,1.5\n\"long, \"\"name\"\"\",10\n"); }

TEST(Table, NumbersKeepFourSignificantDigits) {
  EXPECT_EQ(format_number(12.3456), "12.35");
  EXPECT_EQ(format_number(0.04183), "0.04183");
  EXPECT_EQ(format_number(123456.7), "123457");
  EXPECT_EQ(format_number(0), "0.000");
  EXPECT_EQ(format_number(2.5e-8), "0.00000002500");
  EXPECT_EQ(format_number(-1.5e-13), "-1.5e-13");
  EXPECT_EQ(format_number(1.0 / 0.0), "n/a");
  EXPECT_EQ(format_bytes(100), "100 B");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(64225280000), "59.8 GiB");
  EXPECT_EQ(format_bytes(102475703), "97.7 MiB");
}

TEST(Table, RunWithoutAFigureShowsWhy) {
  BenchRun run;
  run.model = "m";
  Samples samples;
  samples.ms = {2, 2, 2, 2, 2, 2};
  set_samples(run, samples);
  const std::string text = terminal_table(summary_of({run}));
  EXPECT_NE(text.find("n/a (needs ≥ 459 samples)"), std::string::npos) << text;
  EXPECT_NE(text.find("500.0"), std::string::npos) << text;
}

TEST(Table, CsvOfRunsHasOneColumnPerField) {
  BenchRun run;
  run.shapes = {{"x", {1, 3}}};
  Samples samples;
  samples.ms = {2};
  set_samples(run, samples);
  const Table table = fields_of({run, run});
  ASSERT_EQ(table.rows.size(), 2u);
  ASSERT_EQ(table.rows[0].size(), table.columns.size());
  auto cell = [&](const std::string& name) {
    const auto at =
        std::find_if(table.columns.begin(), table.columns.end(), [&](const auto& c) { return c.name == name; });
    return at == table.columns.end() ? "(none)" : table.rows[1][size_t(at - table.columns.begin())];
  };
  EXPECT_EQ(cell("latency_ms.median"), "2");
  EXPECT_EQ(cell("latency_ms.p99"), "");
  EXPECT_EQ(cell("shapes"), "x=1x3");
}

}  // namespace
}  // namespace temper
