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

// Neither quotes nor what a list is written with stand in it, so that who looks for those need not know of texts.
void print_field(std::string& out, const std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    if (c >= ' ' && c <= '~' && std::string_view("\"\\,[]()").find(c) == std::string_view::npos) out += c;
    else (out += "\\x") += {kDigits[uint8_t(c) >> 4], kDigits[uint8_t(c) & 15]};
  }
  out += '"';
}
void print_field(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i) out += ',';
    print_field(out, texts[i]);
  }
  out += ']';
}
void parse_field(std::string_view text, std::string& value) {
  value.clear();
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') bad_field(text, "a text in quotes");
  const std::string_view inner = text.substr(1, text.size() - 2);
  for (size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] != '\\') {
      value += inner[i];
      continue;
    }
    const auto code = inner.substr(i).size() >= 4 && inner[i + 1] == 'x'
                          ? parse_number<uint8_t>(inner.substr(i + 2, 2), 16)
                          : std::nullopt;
    if (!code) bad_field(text, "a text in quotes, of which \\xNN is a byte");
    value += char(*code);
    i += 3;
  }
}
void parse_field(std::string_view text, std::vector<std::string>& values) {
  values.clear();
  parse_list(text, [&](std::string_view word) { parse_field(word, values.emplace_back()); });
}

}  // namespace temper
