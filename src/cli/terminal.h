// SPDX-License-Identifier: Apache-2.0
// What the program knows of the terminal that it prints to.
#pragma once
#include <string>

#include "bench/table_fit.h"

namespace temper::cli {

// Columns of standard output: COLUMNS where that is set, else those of the terminal; 0, any number, where it is none.
size_t terminal_width();
void print_table(const Table& table, const char* after = "");  // fitted to it, and what stands behind
// A line "name        text", wrapped to it, in a column of 12 for the name. The text is made printable.
void print_line(const char* name, const std::string& text);

}  // namespace temper::cli
