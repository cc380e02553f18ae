// SPDX-License-Identifier: Apache-2.0
// Imports the ops on strings: StringConcat, StringSplit, StringNormalizer and RegexFullMatch.
#include "graph/ops/string_concat.h"
#include "graph/ops/string_match.h"
#include "graph/ops/string_normalize.h"
#include "graph/ops/string_split.h"
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
  node.count_pattern(ops::pattern_steps(op));
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

}  // namespace temper
