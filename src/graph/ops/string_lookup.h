// SPDX-License-Identifier: Apache-2.0
// string_lookup(x string) -> i64 of x's shape: the place of each string among the keys, -1 where it is none of them. Of
// equal keys the last one counts.
#pragma once
#include <unordered_map>

#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct StringLookup {
  static constexpr std::string_view name = "string_lookup";
  static constexpr OpKind op_kind = OpKind::string;
  std::vector<std::string> keys;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("keys", op.keys);
  }
  bool operator==(const StringLookup&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return OnnxForm::none("ONNX has it only with the values that a place stands for"); }
};

// Their places by their text, which the keys keep.
using StringPlaces = std::unordered_map<std::string_view, int64_t>;
StringPlaces places_of(const StringLookup& op);
void look_up(const StringPlaces& places, std::span<const uint64_t> codes, int64_t* out);

}  // namespace temper::ops
