// SPDX-License-Identifier: Apache-2.0
// dequantize(x, scale, zero_point?) -> dtype: (x - zero_point) * scale. Scale and zero point are scalars, or vectors
// along `axis`; the zero point has the dtype of x. From f8e4m3fn: its number times the scale, without a zero point.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  static constexpr OpKind op_kind = OpKind::dequantize;
  DType dtype = DType::f32;
  int64_t axis = 0;  // 0 <= axis < rank; without meaning for scalars

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("dtype", op.dtype);
    f("axis", op.axis);
  }
  bool operator==(const Dequantize&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

}  // namespace temper::ops
