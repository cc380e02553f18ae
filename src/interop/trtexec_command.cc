// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_command.h"

#include <algorithm>

#include "base/parse.h"

namespace temper {

namespace {

struct Word {
  std::string text;
  bool is_operator = false;
};

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  bool open = false;
  auto word = [&]() -> std::string& {
    if (!open) words.emplace_back();
    open = true;
    return words.back().text;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      open = false;
    } else if (c == '\\' && i + 1 < line.size()) {
      if (line[i + 1] == '\n' || line[i + 1] == '\r') open = false;
      // A path of Windows keeps its backslashes.
      else if (std::string_view(" \"'\\$`").find(line[i + 1]) == std::string_view::npos)
        word() += c, word() += line[i + 1];
      else word() += line[i + 1];
      ++i;
    } else if (c == '\\') {
      open = false;  // a continuation whose next line is not there
    } else if (c == '\'' || c == '"') {
      const size_t end = std::min(line.find(c, i + 1), line.size());
      word() += line.substr(i + 1, end - i - 1);
      i = end;
    } else if (c == '|' || c == ';' || c == '>' || (c == '&' && line.substr(i, 2) == "&&")) {
      // "2>&1": the digit belongs to the redirection.
      if (c == '>' && open && (words.back().text == "1" || words.back().text == "2")) words.pop_back();
      words.push_back({std::string(1, c), true});
      open = false;
    } else {
      word() += c;
    }
  }
  return words;
}

bool is_trtexec(std::string_view word) {
  word = word.substr(word.find_last_of("/\\") + 1);
  return word == "trtexec" || word == "trtexec.exe";
}

}  // namespace

bool TrtexecCommand::has(std::string_view flag) const {
  return std::any_of(arguments.begin(), arguments.end(), [&](const TrtexecArgument& a) { return a.flag == flag; });
}

std::optional<std::string> TrtexecCommand::value(std::string_view flag) const {
  const auto found = std::find_if(arguments.rbegin(), arguments.rend(),
                                  [&](const TrtexecArgument& a) { return a.flag == flag && a.has_value; });
  return found == arguments.rend() ? std::nullopt : std::optional(found->value);
}

std::optional<int64_t> TrtexecCommand::integer(std::string_view flag) const {
  const auto text = value(flag);
  return text ? parse_number<int64_t>(*text) : std::nullopt;
}

TrtexecCommand parse_trtexec_command(std::string_view line) {
  const std::vector<Word> words = words_of(line);
  auto word =
      std::find_if(words.begin(), words.end(), [](const Word& w) { return !w.is_operator && is_trtexec(w.text); });
  word = word == words.end() ? words.begin() : word + 1;
  std::vector<std::string> texts;
  for (; word != words.end() && !word->is_operator; ++word) texts.push_back(word->text);
  return trtexec_command_of(texts);
}

TrtexecCommand trtexec_command_of(const std::vector<std::string>& words) {
  TrtexecCommand command;
  for (const std::string& word : words) {
    TrtexecArgument argument;
    if (word.starts_with("-")) {
      const size_t equals = word.find('=');
      argument.flag = word.substr(0, equals);
      argument.has_value = equals != std::string::npos;
      if (argument.has_value) argument.value = word.substr(equals + 1);
      if (argument.flag == "-h") argument.flag = "--help";
    } else {
      argument.value = word;
    }
    command.arguments.push_back(std::move(argument));
  }
  return command;
}

std::optional<TrtexecShapes> parse_trtexec_shapes(std::string_view spec) {
  TrtexecShapes shapes;
  while (!spec.empty()) {
    const size_t end = std::min(spec.find(','), spec.size());
    const std::string_view one = spec.substr(0, end);
    const size_t colon = one.rfind(':');
    if (colon == one.npos || colon == 0) return std::nullopt;
    std::string_view name = one.substr(0, colon);
    if (name.size() > 2 && name.front() == '\'' && name.back() == '\'') name = name.substr(1, name.size() - 2);
    std::vector<int64_t>& dims = shapes[std::string(name)];
    std::string_view rest = one.substr(colon + 1);
    if (rest.empty()) dims.clear();  // a scalar
    while (!rest.empty()) {
      const auto dim = parse_leading<int64_t>(rest);
      if (!dim || dim->value < 0 || dims.size() >= 16) return std::nullopt;
      dims.push_back(dim->value);
      rest = dim->rest;
      if (rest.empty()) break;
      if (!rest.starts_with('x') || rest == "x") return std::nullopt;
      rest.remove_prefix(1);
    }
    if (end == spec.size()) break;
    spec.remove_prefix(end + 1);
    if (spec.empty()) return std::nullopt;
  }
  return shapes;
}

}  // namespace temper
