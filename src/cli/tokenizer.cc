// SPDX-License-Identifier: Apache-2.0
#include "cli/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace temper::cli {

namespace {

// Python answers with an object, or with what is wrong.
nlohmann::json answer(const std::optional<std::string>& line, const std::string& file) {
  if (!line) fail(ErrorKind::machine, "the Python that reads '", file, "' has ended");
  const auto json = nlohmann::json::parse(*line, nullptr, false);
  if (!json.is_object()) fail(ErrorKind::machine, "the Python that reads '", file, "' answers '", *line, "'");
  if (json.contains("error")) fail(ErrorKind::bad_file, "'", file, "': ", json.at("error").get<std::string>());
  return json;
}

}  // namespace

bool Tokenizer::start(const std::string& python, std::string& lacking) {
  talk_ = std::make_unique<PythonTalk>(python, std::vector<std::string>{"tokenize", file_});
  const auto line = talk_->line();
  const auto json = line ? nlohmann::json::parse(*line, nullptr, false) : nlohmann::json();
  if (!json.is_object() || json.contains("lacks")) {
    lacking += concat(lacking.empty() ? "" : ", ", python);
    talk_.reset();
    return false;
  }
  ends_ = answer(line, file_).at("ends").get<std::vector<int64_t>>();
  return true;
}

Tokenizer::Tokenizer(const std::string& file, const std::string& python) : file_(file) {
  std::string lacking;
  const std::vector<std::string> pythons = python.empty() ? usual_pythons() : std::vector<std::string>{python};
  for (const std::string& one : pythons)
    if (start(one, lacking)) return;
  fail(ErrorKind::unsupported, "text needs the library tokenizers, and ", lacking,
       " has none: python3 -m pip install tokenizers, or name a Python that has it with --python, or give token ids "
       "with "
       "--prompt-ids");
}

std::vector<int64_t> Tokenizer::encode(const std::string& text) {
  return answer(
             talk_->ask(nlohmann::json{{"encode", text}}.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)),
             file_)
      .at("ids")
      .get<std::vector<int64_t>>();
}

std::string Tokenizer::decode(const std::vector<int64_t>& tokens) {
  return answer(talk_->ask(nlohmann::json{{"decode", tokens}}.dump()), file_).at("text").get<std::string>();
}

// The text of the last few tokens alone, as a whole text is decoded in time that grows with it; with the tokens before
// them, as spaces depend on those.
std::string GrowingText::add(int64_t token, bool& stopped) {
  tokens_.push_back(token);
  const auto text_of = [&](size_t end) {
    return tokenizer_.decode({tokens_.begin() + ptrdiff_t(before_), tokens_.begin() + ptrdiff_t(end)});
  };
  const std::string known = text_of(shown_tokens_), all = text_of(tokens_.size());
  constexpr std::string_view kPart = "\xef\xbf\xbd";  // in the place of a letter that is not whole
  if (all.size() <= known.size() || all.ends_with(kPart)) return "";
  before_ = shown_tokens_;
  shown_tokens_ = tokens_.size();
  return take(all.substr(known.size()), false, stopped);
}

std::string GrowingText::rest() {
  bool stopped = false;
  std::string piece;
  if (shown_tokens_ < tokens_.size()) {
    const auto text_of = [&](size_t end) {
      return tokenizer_.decode({tokens_.begin() + ptrdiff_t(before_), tokens_.begin() + ptrdiff_t(end)});
    };
    const std::string known = text_of(shown_tokens_), all = text_of(tokens_.size());
    if (all.size() > known.size()) piece = all.substr(known.size());
    shown_tokens_ = tokens_.size();
  }
  return take(piece, true, stopped);
}

std::string GrowingText::take(const std::string& piece, bool last, bool& stopped) {
  held_ += piece;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  stopped = end != std::string::npos;
  if (stopped) {
    held_.resize(end);
  } else {
    end = held_.size();
    // The longest end of it that a stop begins with.
    for (const std::string& stop : stops_)
      for (size_t length = std::min(stop.size() - 1, held_.size()); !last && length > 0; --length)
        if (held_.ends_with(std::string_view(stop).substr(0, length))) {
          end = std::min(end, held_.size() - length);
          break;
        }
  }
  std::string shown = held_.substr(0, end);
  held_ = stopped ? "" : held_.substr(end);
  text_ += shown;
  return shown;
}

}  // namespace temper::cli
