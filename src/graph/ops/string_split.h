// SPDX-License-Identifier: Apache-2.0
// string_split(x string) -> string [x..., parts], i64 [x...]: what stands between the delimiters of each string, filled
// up with empty ones, and how many there are of each.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct StringSplit {
  static constexpr std::string_view name = "string_split";
  static constexpr OpKind op_kind = OpKind::string;
  std::string delimiter;  // empty: blanks of ASCII, however many; none before the first part, and none behind the last
  int64_t most = -1;      // splits of one string, from its beginning; -1: all

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("delimiter", op.delimiter);
    f("most", op.most);
  }
  bool operator==(const StringSplit&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  // It needs no types of the outputs: it finds their sizes itself.
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const;
};

}  // namespace temper::ops
