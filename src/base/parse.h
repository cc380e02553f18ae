// SPDX-License-Identifier: Apache-2.0
// Reads numbers from text, independent of the locale.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace temper {

template <class T>
struct Leading {
  T value;
  std::string_view rest;  // what follows the number
};

// The number that the text begins with. Nothing if it begins with none, or with one that T does not hold; a space or a
// plus sign in front is no number. The base is that of whole numbers.
template <class T>
std::optional<Leading<T>> parse_leading(std::string_view text, int base = 10) {
  T value{};
  const char* const last = text.data() + text.size();
  std::from_chars_result result;
  if constexpr (std::is_floating_point_v<T>) result = std::from_chars(text.data(), last, value);
  else result = std::from_chars(text.data(), last, value, base);
  if (result.ec != std::errc()) return std::nullopt;
  return Leading<T>{value, text.substr(size_t(result.ptr - text.data()))};
}

// The number that the text is, all of it.
template <class T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  const auto leading = parse_leading<T>(text, base);
  if (!leading || !leading->rest.empty()) return std::nullopt;
  return leading->value;
}

}  // namespace temper
