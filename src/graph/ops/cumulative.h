// SPDX-License-Identifier: Apache-2.0
// cumulative(x) -> like x: running sums or products along one axis. With a second input (an integer scalar) the axis is
// data and may be negative.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class CumulativeKind { sum, prod };
constexpr std::array<std::string_view, 2> enum_names(CumulativeKind) { return {"sum", "prod"}; }

struct Cumulative {
  static constexpr std::string_view name = "cumulative";
  static constexpr OpKind op_kind = OpKind::other;
  CumulativeKind kind = CumulativeKind::sum;
  int64_t axis = 0;        // 0 <= axis < rank
  bool exclusive = false;  // an element does not count in its own result
  bool reverse = false;    // from the end

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("axis", op.axis);
    f("exclusive", op.exclusive);
    f("reverse", op.reverse);
  }
  bool operator==(const Cumulative&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
