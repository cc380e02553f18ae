// SPDX-License-Identifier: Apache-2.0
// nonzero(x) -> i64 [rank, n]: the positions of the elements that are not 0, in row-major order. A scalar counts as
// [1].
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct NonZero {
  static constexpr std::string_view name = "nonzero";
  static constexpr OpKind op_kind = OpKind::other;
  template <class Self, class F>
  static void fields(Self&, F&&) {}
  bool operator==(const NonZero&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"NonZero", {}}; }
};

}  // namespace temper::ops
