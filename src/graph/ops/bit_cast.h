// SPDX-License-Identifier: Apache-2.0
// bit_cast(x) -> dtype: the same bits read as another dtype of the same size.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct BitCast {
  static constexpr std::string_view name = "bit_cast";
  static constexpr OpKind op_kind = OpKind::other;
  DType dtype = DType::i32;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("dtype", op.dtype);
  }
  bool operator==(const BitCast&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"BitCast", {{"to", dtype}}}; }
};

}  // namespace temper::ops
