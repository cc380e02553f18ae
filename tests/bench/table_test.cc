// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/concat.h"
#include "bench/results.h"
#include "bench/table_fit.h"

namespace temper {
namespace {

const Table kTable = {{{"name", false}, {"ms"}}, {{"é|a", "1.5"}, {"long, \"name\"", "10"}}};

TEST(Table, TerminalColumnsAreAlignedByCodePoints) {
  EXPECT_EQ(terminal_table(kTable),
            "name           ms\n"
            "é|a           1.5\n"
            "long, \"name\"   10\n");
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    widest = std::max(widest, width_of(text.substr(at, end - at)));
  }
  return widest;
}

TEST(Table, NoLineIsWiderThanTheTerminal) {
  Table table{{{"model", false}, {"device", false}}, {}};
  for (int c = 0; c < 12; ++c) table.columns.push_back({concat("figure ", c), true, c});
  for (int r = 0; r < 3; ++r) {
    table.rows.push_back({concat("a/rather/long/path/to/model-", r, ".onnx"), "cpu"});
    for (int c = 0; c < 12; ++c) table.rows.back().push_back(c == 11 ? "n/a (too few samples)" : concat(1000 + c + r));
  }
  for (const size_t width : {40u, 80u, 120u, 200u}) EXPECT_LE(widest_line(terminal_table(table, width)), width);
  const std::string narrow = terminal_table(table, 80), wide = terminal_table(table, 400);
  EXPECT_NE(narrow.find("device cpu"), std::string::npos) << narrow;  // the same in each row
  EXPECT_NE(narrow.find("left out for want of width: figure 0"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("[1] too few samples\n"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("…"), std::string::npos) << narrow;
  EXPECT_EQ(wide.find("left out"), std::string::npos) << wide;
  EXPECT_NE(wide.find("n/a [1]"), std::string::npos) << wide;
  EXPECT_NE(terminal_table(table).find("n/a (too few samples)"), std::string::npos);  // of any width: as it is
}

TEST(Table, ASingleRowIsTurnedWhereItIsTooWide) {
  const Table table{{{"model", false}, {"median ms"}, {"items/s"}}, {{"m.onnx", "1.5", "667"}}};
  EXPECT_EQ(terminal_table(table, 20), "model      m.onnx\nmedian ms  1.5\nitems/s    667\n");
}

TEST(Table, TextIsWrappedBehindItsName) {
  EXPECT_EQ(wrapped("one two three", 6, "name", 13), "name  one two\n      three\n");
  EXPECT_EQ(wrapped("one two three", 6, "name", 0), "name  one two three\n");
  EXPECT_EQ(wrapped("unbreakable", 2, "", 8), "  unbreakable\n");
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
  EXPECT_EQ(cell("cpu_watts_mean"), "");
}

TEST(Table, CsvOfRunsHasTheColumnsOfPartsThatOneRunHas) {
  BenchRun cpu, gpu;
  cpu.cpu_watts_mean = 35.5;
  gpu.gpu.emplace().watts_median = 300;
  const Table table = fields_of({cpu, gpu});
  ASSERT_EQ(table.rows[0].size(), table.columns.size());
  ASSERT_EQ(table.rows[1].size(), table.columns.size());
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].name == "cpu_watts_mean") { EXPECT_EQ(table.rows[0][c] + "|" + table.rows[1][c], "35.5|"); }
    if (table.columns[c].name == "gpu_watts_median") { EXPECT_EQ(table.rows[0][c] + "|" + table.rows[1][c], "|300"); }
  }
}

TEST(Table, EnergyOfAnItemIsWattsOverThroughputAndStandsWhereItIsKnown) {
  BenchRun run;
  Samples samples;
  samples.ms = {2};
  set_samples(run, samples);  // 500 a second
  const auto last = [](const BenchRun& r) { return summary_of({r}).columns.back().name; };
  EXPECT_NE(last(run), "energy/item");
  run.cpu_watts_mean = 50;
  EXPECT_EQ(last(run), "energy/item");
  EXPECT_EQ(energy_text(run), "100.0 mJ (50.0 W)");
  run.gpu.emplace().watts_median = 700;  // the device's own counts
  EXPECT_EQ(energy_text(run), "1.400 J (700 W)");
}

}  // namespace
}  // namespace temper
