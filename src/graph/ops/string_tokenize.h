// SPDX-License-Identifier: Apache-2.0
// string_tokenize(x string) -> string [x..., tokens]: the words of each string, filled up with `pad`; none at all where
// no string has any. com.microsoft's Tokenizer.
#pragma once
#include <memory>

#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct StringTokenize {
  static constexpr std::string_view name = "string_tokenize";
  static constexpr OpKind op_kind = OpKind::string;
  // Patterns of RE2, of which the longest match counts. Words are what stands between matches of the separators, taken
  // one after the other; or, where there are none, what `word` matches; or, where there is no pattern, each letter.
  std::vector<std::string> separators;
  std::string word;
  int64_t least = 1;  // letters of a word; shorter ones are left out
  bool mark = false;  // U+0002 is in front of each string's words, and U+0003 behind them
  std::string pad;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("separators", op.separators);
    f("word", op.word);
    f("least", op.least);
    f("mark", op.mark);
    f("pad", op.pad);
  }
  bool operator==(const StringTokenize&) const = default;
  // Throws Error{bad_file} for a pattern that RE2 refuses, Error{unsupported} for one that is too large.
  std::vector<TensorType> infer(const InferContext& context) const;
  // It needs no types of the outputs: it finds their sizes itself.
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return OnnxForm::none("it is an op of com.microsoft, and ONNX has none like it"); }
};

// The op with its patterns compiled, for runs. Throws as infer does.
class Tokenizer;
std::shared_ptr<const Tokenizer> tokenizer_of(const StringTokenize& op);
Tensor tokenize(const Tokenizer& tokenizer, const Tensor& x);

}  // namespace temper::ops
