// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_lines.h"

#include <algorithm>
#include <cstdint>

#include "base/quote.h"

namespace temper {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Length of the escape sequence that begins at `at`: colours and cursor moves (ESC [ … letter), titles (ESC ] … BEL),
// and two-character ones.
size_t escape_length(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return 1;
  size_t end = at + 2;
  if (text[at + 1] == '[') {
    while (end < text.size() && uint8_t(text[end]) >= 0x20 && uint8_t(text[end]) < 0x40) ++end;
    return std::min(end + 1, text.size()) - at;
  }
  if (text[at + 1] == ']') {
    while (end < text.size() && text[end] != '\a' && text[end] != '\n') ++end;
    return std::min(end + 1, text.size()) - at;
  }
  return 2;
}

std::string utf16_to_ascii(std::string_view bytes, bool little) {
  std::string out;
  for (size_t i = 2; i + 1 < bytes.size(); i += 2) {
    const unsigned unit = uint8_t(bytes[i]) << (little ? 0 : 8) | uint8_t(bytes[i + 1]) << (little ? 8 : 0);
    out += unit < 0x80 ? char(unit) : '?';
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

struct Mark {
  size_t begin, end;  // of the stamp, or of nothing before a banner
  char severity;
};

// "[MM/DD/YYYY-HH:MM:SS] " at `at`.
bool date_at(std::string_view line, size_t at) {
  constexpr std::string_view shape = "[00/00/0000-00:00:00] ";
  if (line.size() - at < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == '0' ? !digit(line[at + i]) : shape[i] != line[at + i]) return false;
  return true;
}

// "[I]" at `at`, followed by a blank or the end of the line: web pages drop blanks at the end.
bool severity_at(std::string_view line, size_t at) {
  return line.size() - at >= 3 && line[at] == '[' && line[at + 2] == ']' &&
         std::string_view("VIWEF").find(line[at + 1]) != std::string_view::npos &&
         (line.size() - at == 3 || line[at + 3] == ' ');
}

// The next stamp or banner from `from` on. A command line may hold "[I]": within a banner only stamps with a date
// count.
Mark next_mark(std::string_view line, size_t from, bool in_banner) {
  for (size_t at = line.find_first_of("[&", from); at != line.npos; at = line.find_first_of("[&", at + 1)) {
    if (line[at] == '&' && line.substr(at, 5) == "&&&& ") return {at, at, '&'};
    if (line[at] != '[') continue;
    const size_t severity = date_at(line, at) ? at + 22 : at;
    if (severity_at(line, severity) && !(in_banner && severity == at))
      return {at, std::min(severity + 4, line.size()), line[severity + 1]};
  }
  return {line.size(), line.size(), 0};
}

}  // namespace

std::string plain_log_text(std::string_view bytes) {
  std::string wide;
  if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff")) {
    wide = utf16_to_ascii(bytes, bytes[0] == '\xff');
    bytes = wide;
  }
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const char c = bytes[at];
    if (c == '\x1b') {
      at += escape_length(bytes, at);
      continue;
    }
    ++at;
    if (c == '\r') out += '\n';
    else if (c == '\n' || c == '\t' || (uint8_t(c) >= 0x20 && c != 0x7f)) out += c;
  }
  return as_utf8(out);
}

void for_each_log_line(std::string_view plain, const std::function<void(const LogLine&)>& use) {
  for (size_t at = 0; at < plain.size();) {
    const size_t end = std::min(plain.find('\n', at), plain.size());
    const std::string_view line = plain.substr(at, end - at);
    at = end + 1;
    Mark mark = next_mark(line, 0, false);
    if (mark.severity == 0) {
      if (const auto text = trimmed(line); !text.empty()) use({0, text});
      continue;
    }
    while (mark.severity != 0) {
      const Mark next = next_mark(line, mark.severity == '&' ? mark.end + 1 : mark.end, mark.severity == '&');
      use({mark.severity, trimmed(line.substr(mark.end, next.begin - mark.end))});
      mark = next;
    }
  }
}

}  // namespace temper
