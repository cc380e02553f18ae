// SPDX-License-Identifier: Apache-2.0
// The kinds of field an op may have, and how each is printed, parsed, and specialised. An op lists its fields once:
//   template <class Self, class F> static void fields(Self& op, F&& f) { f("axis", op.axis); f("kind", op.kind); }
// and that line feeds printing, parsing, hashing and saving. Equality is the struct's defaulted operator==.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace temper {

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires { enum_names(E{})[0]; };

// One word without blanks outside of quotes: 3, 0.5, true, [1,2], max, "text".
inline void print_field(std::string& out, int64_t value) { append(out, value); }
inline void print_field(std::string& out, double value) { append(out, value); }
inline void print_field(std::string& out, bool value) { append(out, value); }
inline void print_field(std::string& out, DType value) { append(out, value); }
inline void print_field(std::string& out, const std::vector<int64_t>& values) { append(out, values); }
inline void print_field(std::string& out, const std::vector<double>& values) { append(out, values); }
inline void print_field(std::string& out, const Dim& dim) { append(out, dim); }
inline void print_field(std::string& out, const Shape& shape) { append(out, shape); }
void print_field(std::string& out, const std::string& text);  // in quotes; other than printable ASCII as \\xNN
void print_field(std::string& out, const std::vector<std::string>& texts);
inline void print_field(std::string& out, const Program& program) { out += concat('"', program.text(), '"'); }
template <NamedEnum E>
void print_field(std::string& out, E value) {
  out += enum_names(E{})[size_t(value)];
}

[[noreturn]] void bad_field(std::string_view text, std::string_view wanted);
void parse_field(std::string_view text, int64_t& value);
void parse_field(std::string_view text, double& value);
void parse_field(std::string_view text, bool& value);
void parse_field(std::string_view text, DType& value);
void parse_field(std::string_view text, std::vector<int64_t>& values);
void parse_field(std::string_view text, std::vector<double>& values);
void parse_field(std::string_view text, Dim& dim);
void parse_field(std::string_view text, Shape& shape);
void parse_field(std::string_view text, Program& program);
void parse_field(std::string_view text, std::string& value);
void parse_field(std::string_view text, std::vector<std::string>& values);
template <NamedEnum E>
void parse_field(std::string_view text, E& value) {
  const auto names = enum_names(E{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) {
      value = E(i);
      return;
    }
  bad_field(text, "one of the kinds this op knows");
}

// Only dimensions depend on symbols.
template <class T, class F>
void each_dim(T&, const F&) {}
template <class F>
void each_dim(Dim& dim, const F& f) {
  f(dim);
}
template <class F>
void each_dim(Shape& shape, const F& f) {
  for (Dim& dim : shape) f(dim);
}

template <class T>
bool is_concrete_field(const T&) {
  return true;
}
inline bool is_concrete_field(const Dim& dim) { return dim.is_constant(); }
inline bool is_concrete_field(const Shape& shape) {
  for (const Dim& dim : shape)
    if (!dim.is_constant()) return false;
  return true;
}

}  // namespace temper
