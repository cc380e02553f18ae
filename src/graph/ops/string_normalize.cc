// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_normalize.h"

#include <locale.h>  // NOLINT(modernize-deprecated-headers): newlocale is POSIX's
#include <wctype.h>  // NOLINT(modernize-deprecated-headers): towlower_l is

#include <set>

#include "base/quote.h"
#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

// One letter for one letter, as the C library has them for Unicode; "ß" has no capital then, and a locale's own rules
// (the Turkish i) are not followed.
locale_t unicode_letters() {
  static const locale_t letters = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t(0));
  if (!letters) fail(ErrorKind::machine, "this system has no locale C.UTF-8, whose letters string_normalize needs");
  return letters;
}

// Bytes that are no UTF-8 stay as they are.
std::string in_case(std::string_view text, LetterCase letters) {
  if (letters == LetterCase::as_is) return std::string(text);
  const locale_t locale = unicode_letters();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      out += text[at++];
      continue;
    }
    const auto letter = wint_t(utf8_character(text, at));
    append_utf8(out, letters == LetterCase::lower ? towlower_l(letter, locale) : towupper_l(letter, locale));
    at += length;
  }
  return out;
}

std::vector<uint64_t> normalized(const Tensor& x, const StringNormalize& op) {
  StringTable& table = current_strings();
  std::set<std::string, std::less<>> left_out;
  const LetterCase compared = op.case_sensitive ? LetterCase::as_is : LetterCase::lower;
  for (const std::string& word : op.stopwords) left_out.insert(in_case(word, compared));
  std::vector<uint64_t> codes;
  for (uint64_t given : codes_of(x)) {
    const std::string_view text = table.at(given);
    if (!left_out.empty() && left_out.contains(in_case(text, compared))) continue;
    codes.push_back(table.code_of(in_case(text, op.letters)));
  }
  if (!left_out.empty() && codes.empty()) codes.push_back(0);
  return codes;
}

}  // namespace

std::vector<TensorType> StringNormalize::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  context.expect_rank(0, 1, 2);
  expect_strings(context, 0);
  TensorType y = context.type(0);
  if (y.rank() == 2 && y.shape[0] != Dim(1)) fail(ErrorKind::bad_file, "an input ", y, " is neither [C] nor [1,C]");
  if (const Tensor* known = context.constant(0)) y.shape.back() = int64_t(normalized(*known, *this).size());
  else if (!stopwords.empty()) y.shape.back() = context.unknown(0, y.rank() - 1);
  return {y};
}

std::vector<Tensor> StringNormalize::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const std::vector<uint64_t> codes = normalized(inputs[0], *this);
  Dims dims = inputs[0].dims();
  dims.back() = int64_t(codes.size());
  return {Tensor::of(dims, codes).with_bits_as(DType::string)};
}

}  // namespace temper::ops
