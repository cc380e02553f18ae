// SPDX-License-Identifier: Apache-2.0
// Tables for the terminal, for markdown and for spreadsheets.
#pragma once
#include <string>
#include <vector>

#include "base/bytes.h"

namespace temper {

struct BenchRun;

struct Table {
  struct Column {
    std::string name;
    bool right = true;   // numbers are aligned to the right, words to the left
    int weight = 5;      // where a terminal is too narrow, columns of the least weight are left out
    bool notes = false;  // there, these words become footnotes, which several rows may share
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as there are columns; a programmer's error otherwise
};

// Aligned by code points, two spaces between columns. `width`: code points that a line may have (bench/table_fit.h says
// what becomes of wider ones); 0: any number.
std::string terminal_table(const Table& table, size_t width = 0);
std::string markdown_table(const Table& table);
std::string csv_table(const Table& table);  // RFC 4180, but lines end in "\n"

// "12.35", "0.0418", "1190": `digits` significant digits; an exponent ("1.5e-13") only below 1e-8.
std::string format_number(double value, int digits = 4);
std::string percent(double share, int digits = 3);  // of 1: "98.7 %"

// The figures that a reader wants to see of runs: one row a run. Absent figures are "n/a" with the note.
Table summary_of(const std::vector<BenchRun>& runs);
// Every scalar field under the names of the result file ("latency_ms.median"), for spreadsheets: absent = empty cell.
Table fields_of(const std::vector<BenchRun>& runs);

}  // namespace temper
