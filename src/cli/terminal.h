// SPDX-License-Identifier: Apache-2.0
// Prints tables and texts in the width of the terminal.
#pragma once
#include <string>

#include "bench/table_fit.h"

namespace temper::cli {

// Columns of standard output: COLUMNS where that is set, else those of the terminal; 0, any number, where it is none.
size_t terminal_width();
size_t terminal_width_of_errors();  // of standard error, which is one; 80 where it does not say
void print_table(const Table& table, const char* after = "");  // fitted to it, and what stands behind
// What people read of a file's text: made printable, a name of megabytes cut in its middle, as in messages and tables.
std::string in_short_words(const std::string& text);
// Words in the width of the terminal: the first line begins with `head`, all stand behind `indent` blanks. The text is
// shown in_short_words.
void print_text(const std::string& text, size_t indent = 0, const std::string& head = "");
// A line "name        text", wrapped to it, in a column of 12 for the name, as print_text does.
void print_line(const char* name, const std::string& text);

}  // namespace temper::cli
