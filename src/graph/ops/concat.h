// SPDX-License-Identifier: Apache-2.0
// concat(x...) along `axis`: at least one input, all of one dtype and equal in the other axes.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Concat {
  static constexpr std::string_view name = "concat";
  static constexpr OpKind op_kind = OpKind::movement;
  int64_t axis = 0;  // 0 <= axis < rank

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("axis", op.axis);
  }
  bool operator==(const Concat&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::carrier; }
  OnnxForm onnx_form() const { return {"Concat", {{"axis", axis}}}; }
};

}  // namespace temper::ops
