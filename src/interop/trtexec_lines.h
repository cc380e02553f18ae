// SPDX-License-Identifier: Apache-2.0
// Recovers the lines of a trtexec log from whatever a terminal, a shell, docker or a web page made of it.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace temper {

struct LogLine {
  char severity = 0;      // 'V', 'I', 'W', 'E', 'F' of "[I] "; '&' of a banner ("&&&& "); 0 where the line has neither
  std::string_view text;  // behind the stamp, without blanks at its ends; of a banner from "&&&& " on
};

// Text without colours, control characters and byte order marks; UTF-16 (as PowerShell redirects it) becomes UTF-8,
// where characters beyond ASCII are '?'. Bytes that are not UTF-8 become U+FFFD: names are sorted as they are written
// later. A carriage return ends a line.
std::string plain_log_text(std::string_view bytes);

// The lines of plain text. What stands before a stamp ("[01/24/2024-20:02:59] [I] ", with or without the date) or a
// banner is a prefix and dropped; a second one in the same line begins a new line. Lines without content are left out,
// unless they have a stamp.
void for_each_log_line(std::string_view plain, const std::function<void(const LogLine&)>& use);

}  // namespace temper
