// SPDX-License-Identifier: Apache-2.0
// Text to tokens and back, by the library `tokenizers` in a Python that has it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/python.h"

namespace temper::cli {

class Tokenizer {
 public:
  // `file`: a tokenizer.json. `python`: "" tries the usual ones. Throws Error{unsupported} where none has the library,
  // Error{bad_file} for a file that is none.
  Tokenizer(const std::string& file, const std::string& python);

  std::vector<int64_t> encode(const std::string& text);
  std::string decode(const std::vector<int64_t>& tokens);
  // Tokens that end a text, of those that the folder names (generation_config.json, config.json).
  const std::vector<int64_t>& ends() const { return ends_; }

 private:
  std::string file_;
  std::unique_ptr<PythonTalk> talk_;
  std::vector<int64_t> ends_;

  bool start(const std::string& python, std::string& lacking);
};

// Text that grows token by token. A token may hold a part of a letter, and the first letters of a text to stop at.
class GrowingText {
 public:
  GrowingText(Tokenizer& tokenizer, std::vector<std::string> stops) : tokenizer_(tokenizer), stops_(std::move(stops)) {}

  // The text that can be shown since; sets `stopped` where a text to stop at has come, which is not shown.
  std::string add(int64_t token, bool& stopped);
  std::string rest();  // what was held back, where nothing follows
  const std::string& text() const { return text_; }

 private:
  Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::vector<int64_t> tokens_;
  size_t shown_tokens_ = 0, before_ = 0;  // tokens whose text is known; where that of the last ones begins
  std::string text_, held_;               // shown; what may be the beginning of a stop

  std::string take(const std::string& piece, bool last, bool& stopped);
};

}  // namespace temper::cli
