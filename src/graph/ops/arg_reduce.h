// SPDX-License-Identifier: Apache-2.0
// arg_reduce(x) -> i64: the index of the largest or smallest element along one axis. NaN counts as the winner, as in
// numpy.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class ArgKind { max, min };
constexpr std::array<std::string_view, 2> enum_names(ArgKind) { return {"max", "min"}; }

struct ArgReduce {
  static constexpr std::string_view name = "arg_reduce";
  static constexpr OpKind op_kind = OpKind::reduction;
  ArgKind kind = ArgKind::max;
  int64_t axis = 0;  // 0 <= axis < rank
  bool keepdims = true;
  bool last = false;  // of several equal winners the last one

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("axis", op.axis);
    f("keepdims", op.keepdims);
    f("last", op.last);
  }
  bool operator==(const ArgReduce&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const;
};

}  // namespace temper::ops
