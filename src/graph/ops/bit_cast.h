// SPDX-License-Identifier: Apache-2.0
// bit_cast(x) -> dtype: the same bits read as another dtype of the same size. Of a type that is stored only the codes
// are read (base/dtype.h); what makes such a type gives no byte that is no code of it.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
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
};

}  // namespace temper::ops
