// SPDX-License-Identifier: Apache-2.0
// Joins values of mixed kinds into one string. Kept free of <format>/<fmt> because nearly every file includes it.
#pragma once
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, char c) { out += c; }
template <class T>
  requires(std::integral<T> || std::floating_point<T>)
void append(std::string& out, T value) {
  if constexpr (std::same_as<T, bool>) {  // a template, because a plain bool overload would swallow string literals
    out += value ? "true" : "false";
  } else {
    char buffer[40];  // std::to_chars prints the shortest text that reads back as the same value
    out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  }
}
template <class T>
void append(std::string& out, const std::vector<T>& values) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ',';
    append(out, values[i]);
  }
  out += ']';
}

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

}  // namespace temper
