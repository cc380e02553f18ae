// SPDX-License-Identifier: Apache-2.0
#include "graph/fields.h"

#include "base/parse.h"

namespace temper {

void bad_field(std::string_view text, std::string_view wanted) {
  fail(ErrorKind::bad_file, "'", text.substr(0, 80), "' is not ", wanted);
}

namespace {
template <class T>
void read_number(std::string_view text, T& value) {
  const auto number = parse_number<T>(text);
  if (!number) bad_field(text, "a number");
  value = *number;
}

// "[a,b,c]": calls each(word); commas inside brackets do not separate.
template <class F>
void parse_list(std::string_view text, F&& each) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') bad_field(text, "a list");
  text = text.substr(1, text.size() - 2);
  if (text.empty()) return;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      each(text.substr(start, i - start));
      start = i + 1;
    } else if (text[i] == '(') ++depth;
    else if (text[i] == ')') --depth;
  }
}
}  // namespace

void parse_field(std::string_view text, int64_t& value) { read_number(text, value); }
void parse_field(std::string_view text, double& value) { read_number(text, value); }
void parse_field(std::string_view text, bool& value) {
  if (text != "true" && text != "false") bad_field(text, "true or false");
  value = text == "true";
}
void parse_field(std::string_view text, DType& value) {
  auto dtype = dtype_from_name(text);
  if (!dtype) bad_field(text, "a dtype");
  value = *dtype;
}
void parse_field(std::string_view text, std::vector<int64_t>& values) {
  values.clear();
  parse_list(text, [&](std::string_view word) { read_number(word, values.emplace_back()); });
}
void parse_field(std::string_view text, std::vector<double>& values) {
  values.clear();
  parse_list(text, [&](std::string_view word) { read_number(word, values.emplace_back()); });
}
void parse_field(std::string_view text, Dim& dim) { dim = Dim::parse(text); }
void parse_field(std::string_view text, Shape& shape) {
  shape.clear();
  parse_list(text, [&](std::string_view word) { shape.push_back(Dim::parse(word)); });
}
void parse_field(std::string_view text, Program& program) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') bad_field(text, "a quoted program");
  program = Program::parse(text.substr(1, text.size() - 2));
}

}  // namespace temper
