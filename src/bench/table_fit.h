// SPDX-License-Identifier: Apache-2.0
// Makes a table fit a terminal, so that no row of it is wrapped.
#pragma once
#include <string>
#include <vector>

#include "bench/table.h"

namespace temper {

struct FittedTable {
  Table table;
  std::vector<std::string> above, below;  // lines beside the table: what all rows share; reasons; what was left out
};

// A table whose lines take at most `width` code points, at least 20. In this order, until it fits: reasons of absent
// figures ("n/a (why)") become footnotes; a column that says the same in each of several rows becomes part of a line
// above; a table of one row is turned, one line a column; words that may be notes become footnotes; columns of the
// least weight are left out, and named below; words lose their middle.
FittedTable fitted(const Table& table, size_t width);

size_t width_of(const std::string& text);           // code points
std::vector<size_t> widths_of(const Table& table);  // of its columns: the longest of their names and cells
// Words in lines of at most `width` code points. The first begins with `name` in a column of `indent`, the others are
// indented so; width 0: one line. Ends with a line break.
std::string wrapped(const std::string& text, size_t indent, const std::string& name, size_t width);

}  // namespace temper
