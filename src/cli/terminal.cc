// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "base/parse.h"
#include "base/quote.h"

namespace temper::cli {

size_t terminal_width() {
  if (const char* columns = std::getenv("COLUMNS"))
    if (const auto width = parse_number<int>(columns); width && *width > 0) return size_t(*width);
  winsize size{};
  return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t terminal_width_of_errors() {
  if (const char* columns = std::getenv("COLUMNS"))
    if (const auto width = parse_number<int>(columns); width && *width > 0) return size_t(*width);
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void print_table(const Table& table, const char* after) {
  std::fputs(terminal_table(table, terminal_width()).c_str(), stdout);
  std::fputs(after, stdout);
}

std::string in_short_words(const std::string& text) { return with_short_words(printable(text), kLongestWord); }

void print_text(const std::string& text, size_t indent, const std::string& head) {
  std::fputs(wrapped(in_short_words(text), indent, head, terminal_width()).c_str(), stdout);
}

void print_line(const char* name, const std::string& text) { print_text(text, 12, name); }

}  // namespace temper::cli
