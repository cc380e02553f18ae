// SPDX-License-Identifier: Apache-2.0
#include "base/quote.h"

#include <algorithm>
#include <cstdint>

#include "base/concat.h"

namespace temper {

namespace {
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
}

std::string shell_quoted(const std::string& text) {
  if (!text.empty() &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+%@-") ==
          std::string::npos)
    return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

size_t utf8_length(std::string_view text, size_t at) {
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

uint32_t utf8_character(std::string_view text, size_t at) {
  const size_t length = utf8_length(text, at);
  uint32_t character = length <= 1 ? uint8_t(text[at]) : uint8_t(text[at]) & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) character = character << 6 | (uint8_t(text[at + i]) & 0x3fu);
  return character;
}

void append_utf8(std::string& out, uint32_t character) {
  const auto byte = [&](uint32_t bits) { out += char(bits); };
  const auto follow = [&](int shift) { byte(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) return byte(character);
  if (character < 0x800) return byte(0xc0 | character >> 6), follow(0);
  if (character < 0x10000) return byte(0xe0 | character >> 12), follow(6), follow(0);
  byte(0xf0 | character >> 18), follow(12), follow(6), follow(0);
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) out += kReplacement;
    else out += text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

namespace {

// Unicode's invisible characters that reverse what follows, or end a line: with them a name could rewrite its
// surroundings.
bool turns_direction(std::string_view c) {
  return c == "\u061c" || c == "\u200e" || c == "\u200f" || (c >= "\u2028" && c <= "\u202e") ||
         (c >= "\u2066" && c <= "\u2069");
}

std::string cleaned(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint8_t first = uint8_t(text[at]);
    if (first < 0x80) {  // nearly always
      out += (first < 0x20 && !(lines && first == '\n')) || first == 0x7f ? ' ' : char(first);
      ++at;
      continue;
    }
    const size_t length = utf8_length(text, at);
    if (length == 0) out += kReplacement;
    else if (first == 0xc2 && uint8_t(text[at + 1]) < 0xa0) out += ' ';
    else if (turns_direction(text.substr(at, length))) out += kReplacement;
    else out += text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

bool continues(char c) { return (uint8_t(c) & 0xc0) == 0x80; }

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, false); }
std::string printable_lines(std::string_view text) { return cleaned(text, true); }

std::string cut_in_middle(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t head = most / 2, tail = text.size() - most / 4;
  while (head > 0 && continues(text[head])) --head;
  while (tail < text.size() && continues(text[tail])) ++tail;
  return concat(text.substr(0, head), "…(", tail - head, " bytes)…", text.substr(tail));
}

std::string with_short_words(const std::string& text, size_t most) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    out += cut_in_middle(std::string_view(text).substr(at, end - at), most);
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

}  // namespace temper
