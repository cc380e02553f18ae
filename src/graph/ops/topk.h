// SPDX-License-Identifier: Apache-2.0
// topk(x) -> values, i64 indices: the `k` largest (smallest) elements along `axis` in order; of equal ones that with
// the lower index comes first, NaN counts as larger than any number. With a second input (i64 [1]) k is data.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct TopK {
  static constexpr std::string_view name = "topk";
  static constexpr OpKind op_kind = OpKind::other;
  Dim k = 0;
  int64_t axis = 0;  // 0 <= axis < rank
  bool largest = true;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("k", op.k);
    f("axis", op.axis);
    f("largest", op.largest);
  }
  bool operator==(const TopK&) const = default;
  static constexpr size_t data_inputs = 1;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
