// SPDX-License-Identifier: Apache-2.0
// string_normalize(x string [C] or [1,C]) -> string [D] or [1,D]: without the strings that are listed, and in capital
// or small letters. Where none is left, one empty string is.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class LetterCase { as_is, lower, upper };
constexpr std::array<std::string_view, 3> enum_names(LetterCase) { return {"as_is", "lower", "upper"}; }

struct StringNormalize {
  static constexpr std::string_view name = "string_normalize";
  static constexpr OpKind op_kind = OpKind::string;
  LetterCase letters = LetterCase::as_is;
  bool case_sensitive = false;  // in the comparison with stopwords
  std::vector<std::string> stopwords;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("letters", op.letters);
    f("case_sensitive", op.case_sensitive);
    f("stopwords", op.stopwords);
  }
  bool operator==(const StringNormalize&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  // It needs no types of the outputs: it finds their sizes itself.
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
