// SPDX-License-Identifier: Apache-2.0
// concat(x...) along `axis`: at least one input, all of one dtype and equal in the other axes.
#pragma once
#include <limits>

#include "graph/fields.h"
#include "graph/flow.h"
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
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowForm::carries(std::numeric_limits<size_t>::max()); }
  OnnxForm onnx_form() const { return {"Concat", {{"axis", axis}}}; }
  Flow flow(size_t) const { return Flow::moved; }
  bool is_no_op(const TensorType&, size_t inputs) const { return inputs == 1; }
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

}  // namespace temper::ops
