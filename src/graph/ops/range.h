// SPDX-License-Identifier: Apache-2.0
// range(start, limit, delta) -> [max(0, ceil((limit - start) / delta))]: start + i * delta. The inputs are scalars of
// one dtype.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Range {
  static constexpr std::string_view name = "range";
  static constexpr OpKind op_kind = OpKind::other;
  template <class Self, class F>
  static void fields(Self&, F&&) {}
  bool operator==(const Range&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
