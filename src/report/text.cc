// SPDX-License-Identifier: Apache-2.0
#include "report/text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/concat.h"
#include "bench/results.h"
#include "bench/table.h"

namespace temper {

namespace {

// Length of the UTF-8 sequence at `at`, 0 where there is none. Overlong forms, surrogates and what lies above U+10FFFF
// are none.
size_t sequence_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? uint8_t(text[at + i]) : uint8_t(0); };
  const auto follows = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef)
    return follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) && follows(2) ? 3 : 0;
  if (first >= 0xf0 && first <= 0xf4)
    return follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

// Unicode's invisible characters that reverse what follows, or end a line: with them a name could rewrite its
// surroundings.
bool turns_direction(std::string_view c) {
  return c == "\u061c" || c == "\u200e" || c == "\u200f" || (c >= "\u2028" && c <= "\u202e") ||
         (c >= "\u2066" && c <= "\u2069");
}

std::string absent(const BenchRun& run, const std::string& field) {
  const auto note = run.notes.find(field);
  if (note == run.notes.end()) return "n/a";
  return note->second.starts_with("n/a") ? note->second : concat("n/a (", note->second, ")");
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_at(text, at);
    const uint8_t first = uint8_t(text[at]);
    if (length == 0) out += "\xef\xbf\xbd";
    else if (first < 0x20 || first == 0x7f || (first == 0xc2 && uint8_t(text[at + 1]) < 0xa0)) out += ' ';
    else if (turns_direction(text.substr(at, length))) out += "\xef\xbf\xbd";
    else out += text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

std::string shortened(const std::string& text, size_t most) {
  std::vector<size_t> starts;  // of code points
  for (size_t i = 0; i < text.size(); ++i)
    if ((uint8_t(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  if (starts.size() <= most) return text;
  const size_t head = most / 3, tail = most - head - 1;
  return concat(text.substr(0, starts[head]), "…", text.substr(starts[starts.size() - tail]));
}

std::string file_name_of(const std::string& path) {
  const size_t slash = path.find_last_of('/', path.size() < 2 ? std::string::npos : path.size() - 2);
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string shown(const BenchRun& run, const std::optional<double>& value, const std::string& field) {
  if (!value) return absent(run, field);
  const auto note = run.notes.find(field);
  const bool marked = note != run.notes.end() && field.starts_with("latency_ms.p");
  return marked ? concat(format_number(*value), " (", note->second, ")") : format_number(*value);
}

std::string shown_bytes(const BenchRun& run, const std::optional<int64_t>& value, const std::string& field) {
  return value ? format_bytes(double(*value)) : absent(run, field);
}

std::string whole(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? concat(int64_t(value)) : format_number(value);
}

}  // namespace temper
