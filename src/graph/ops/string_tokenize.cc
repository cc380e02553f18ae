// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_tokenize.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/quote.h"
#include "base/string_table.h"
#include "graph/ops/string_match.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

using Words = std::vector<std::string_view>;

// Of the letter at `at`; a byte that is no UTF-8 is one, too.
size_t letter_bytes(std::string_view text, size_t at) { return std::max<size_t>(utf8_length(text, at), 1); }

int64_t letters_of(std::string_view text) {
  int64_t letters = 0;
  for (size_t at = 0; at < text.size(); at += letter_bytes(text, at)) ++letters;
  return letters;
}

// Calls f(begin, length) for each match; behind an empty one a letter is passed over.
template <class F>
void each_match(const RE2& pattern, std::string_view text, const F& f) {
  re2::StringPiece found;
  for (size_t at = 0; at <= text.size() && pattern.Match(text, at, text.size(), RE2::UNANCHORED, &found, 1);) {
    const auto begin = size_t(found.data() - text.data());
    f(begin, found.size());
    at = begin + found.size();
    if (found.empty()) at += begin < text.size() ? letter_bytes(text, begin) : 1;
  }
}

}  // namespace

class Tokenizer {
 public:
  explicit Tokenizer(StringTokenize of) : op(std::move(of)) {
    for (const std::string& separator : op.separators) patterns_.push_back(compiled(separator, Longest::yes));
    if (!op.word.empty()) patterns_.push_back(compiled(op.word, Longest::yes));
  }

  const StringTokenize op;

  Words words_of(std::string_view text) const {
    Words words{text};
    if (patterns_.empty()) {
      words.clear();
      for (size_t at = 0; at < text.size(); at += words.back().size())
        words.push_back(text.substr(at, letter_bytes(text, at)));
    } else if (!op.word.empty()) {
      words.clear();
      each_match(*patterns_[0], text,
                 [&](size_t begin, size_t length) { words.push_back(text.substr(begin, length)); });
    } else {
      for (const auto& pattern : patterns_) {
        Words parts;
        for (std::string_view part : words) {
          size_t from = 0;
          each_match(*pattern, part, [&](size_t begin, size_t length) {
            parts.push_back(part.substr(from, begin - from));
            from = begin + length;
          });
          parts.push_back(part.substr(from));
        }
        words = std::move(parts);
      }
    }
    std::erase_if(words, [&](std::string_view word) { return word.empty() || letters_of(word) < op.least; });
    return words;
  }

 private:
  std::vector<std::shared_ptr<const RE2>> patterns_;
};

namespace {

std::vector<Words> all_words(const Tensor& x, const Tokenizer& tokenizer) {
  std::vector<Words> all;
  for (uint64_t code : codes_of(x)) all.push_back(tokenizer.words_of(current_strings().at(code)));
  return all;
}

int64_t width_of(const std::vector<Words>& all, bool mark) {
  size_t most = 0;
  for (const Words& words : all) most = std::max(most, words.size());
  return most == 0 ? 0 : int64_t(most) + (mark ? 2 : 0);
}

}  // namespace

std::vector<TensorType> StringTokenize::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  context.expect_rank(0, 0, kMaxRank - 1);
  expect_strings(context, 0);
  if (!separators.empty() && !word.empty()) fail(ErrorKind::bad_file, "separators and words");
  const Tokenizer tokenizer(*this);  // refuses patterns that are not valid
  TensorType out = context.type(0);
  const Tensor* known = context.constant(0);  // of a run, just before it
  out.shape.push_back(known ? Dim(width_of(all_words(*known, tokenizer), mark)) : context.unknown(0, out.rank()));
  return {out};
}

std::vector<Tensor> StringTokenize::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  return {tokenize(Tokenizer(*this), inputs[0])};
}

std::shared_ptr<const Tokenizer> tokenizer_of(const StringTokenize& op) {
  return std::make_shared<const Tokenizer>(op);
}

Tensor tokenize(const Tokenizer& tokenizer, const Tensor& x) {
  const StringTokenize& op = tokenizer.op;
  const std::vector<Words> all = all_words(x, tokenizer);
  const int64_t width = width_of(all, op.mark);
  Dims dims = x.dims();
  dims.push_back(width);
  Tensor out(DType::u64, dims);
  StringTable& table = current_strings();
  uint64_t* to = out.data<uint64_t>();
  for (size_t i = 0; width > 0 && i < all.size(); ++i) {
    uint64_t* const end = to + width;
    if (op.mark) *to++ = table.code_of("\x02");
    for (std::string_view text : all[i]) *to++ = table.code_of(text);
    if (op.mark) *to++ = table.code_of("\x03");
    std::fill(to, end, table.code_of(op.pad));
    to = end;
  }
  return out.with_bits_as(DType::string);
}

}  // namespace temper::ops
