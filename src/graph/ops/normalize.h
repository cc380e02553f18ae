// SPDX-License-Identifier: Apache-2.0
// normalize(x) -> like x, over `axes` together: (x - mean) / sqrt(variance + epsilon), or without `center`
// x / sqrt(mean of squares + epsilon). Scale and shift, where a model has them, are pointwise steps after it.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Normalize {
  static constexpr std::string_view name = "normalize";
  static constexpr OpKind op_kind = OpKind::normalization;
  std::vector<int64_t> axes;  // sorted, 0 <= axis < rank
  double epsilon = 1e-5;
  bool center = true;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("axes", op.axes);
    f("epsilon", op.epsilon);
    f("center", op.center);
  }
  bool operator==(const Normalize&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowForm::stays_f32("its sums stay in fp32"); }
};

}  // namespace temper::ops
