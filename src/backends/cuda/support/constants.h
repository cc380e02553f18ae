// SPDX-License-Identifier: Apache-2.0
// Writes the constants at the head of a kernel's text.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"

namespace temper::cuda {

// "constexpr TYPE A = 1, B = 2;\n"
template <class T>
std::string constants_of(std::string_view type, const std::vector<std::pair<std::string_view, T>>& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += concat(text.empty() ? concat("constexpr ", type, " ") : ", ", name, " = ", value);
  return text + ";\n";
}
inline std::string int_constants(const std::vector<std::pair<std::string_view, int64_t>>& values) {
  return constants_of("int", values);
}
inline std::string bool_constants(const std::vector<std::pair<std::string_view, bool>>& values) {
  return constants_of("bool", values);
}
// "#define NAME value\n"
template <class T>
std::string macro(std::string_view name, const T& value) {
  return concat("#define ", name, ' ', value, '\n');
}
// "#include \"backends/cuda/PATH\"\n"
inline std::string include_line(std::string_view path) { return concat("#include \"backends/cuda/", path, "\"\n"); }
// "using NAME = type;\n"
inline std::string type_alias(std::string_view name, std::string_view type) {
  return concat("using ", name, " = ", type, ";\n");
}

}  // namespace temper::cuda
