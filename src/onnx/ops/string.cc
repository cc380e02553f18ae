// SPDX-License-Identifier: Apache-2.0
// Imports the ops on strings: StringConcat, StringSplit, StringNormalizer and RegexFullMatch, and com.microsoft's
// Tokenizer.
#include <re2/re2.h>

#include "base/quote.h"
#include "graph/ops/string_concat.h"
#include "graph/ops/string_match.h"
#include "graph/ops/string_normalize.h"
#include "graph/ops/string_split.h"
#include "graph/ops/string_tokenize.h"
#include "onnx/node.h"

namespace temper {

void import_StringConcat(OnnxNode& node) {
  node.set_output(0, node.add(ops::StringConcat{}, {node.input(0), node.input(1)}));
}

void import_StringSplit(OnnxNode& node) {
  ops::StringSplit op;
  op.delimiter = node.string_attribute("delimiter", "");
  if (node.has_attribute("maxsplit")) {
    op.most = node.int_attribute("maxsplit", 0);
    if (op.most < 0) op.most = -1;
  }
  const auto outputs = node.add_many(op, {node.input(0)});
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

void import_RegexFullMatch(OnnxNode& node) {
  if (!node.has_attribute("pattern")) node.bad("it has no attribute 'pattern'");
  ops::StringMatch op{node.string_attribute("pattern", "")};
  node.count_pattern(ops::pattern_steps(op.pattern));
  node.set_output(0, node.add(std::move(op), {node.input(0)}));
}

void import_StringNormalizer(OnnxNode& node) {
  ops::StringNormalize op;
  const std::string action = node.string_attribute("case_change_action", "NONE");
  if (action == "LOWER") op.letters = ops::LetterCase::lower;
  else if (action == "UPPER") op.letters = ops::LetterCase::upper;
  else if (action != "NONE") node.bad("case_change_action is '", action, "'; it is LOWER, UPPER or NONE");
  op.case_sensitive = node.int_attribute("is_case_sensitive", 0) != 0;
  op.stopwords = node.strings_attribute("stopwords", {});
  // Letters change as Unicode has them, whatever the language, but for those languages that have rules of their own.
  const std::string locale = node.string_attribute("locale", "");
  for (const char* language : {"tr", "az", "lt"})
    if (locale.starts_with(language)) node.unsupported("the locale '", locale, "'");
  node.set_output(0, node.add(op, {node.input(0)}));
}

namespace microsoft {

// Separators count before words. One that is empty makes each letter a word.
void import_Tokenizer(OnnxNode& node) {
  ops::StringTokenize op;
  op.mark = node.int_attribute("mark") != 0;
  op.least = node.int_attribute("mincharnum");
  op.pad = node.string_attribute("pad_value", "");
  op.separators = node.strings_attribute("separators", {});
  const std::string word = node.string_attribute("tokenexp", "");
  if (op.least < 1) node.bad("mincharnum is ", op.least);
  if (op.separators.empty()) {
    if (word.empty()) node.bad("neither separators nor tokenexp");
    op.word = word;
  } else if (op.separators == std::vector<std::string>{""}) {
    if (op.least > 1) node.bad("mincharnum is ", op.least, " for words of one letter");
    op.separators.clear();
  }
  for (const std::string& separator : op.separators) {
    node.count_pattern(ops::pattern_steps(separator));
    if (ops::compiled(separator, ops::Longest::yes)->Match("", 0, 0, re2::RE2::ANCHOR_BOTH, nullptr, 0))
      node.unsupported("the separator '", printable(separator), "', which matches no letter,");
  }
  if (!op.word.empty()) node.count_pattern(ops::pattern_steps(op.word));
  node.set_output(0, node.add(std::move(op), {node.input(0)}));
}

}  // namespace microsoft

}  // namespace temper
