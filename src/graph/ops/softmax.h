// SPDX-License-Identifier: Apache-2.0
// softmax(x) along one axis, or its logarithm. Older ONNX versions, which flatten, are lowered by reshape.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Softmax {
  static constexpr std::string_view name = "softmax";
  static constexpr OpKind op_kind = OpKind::softmax;
  int64_t axis = 0;  // 0 <= axis < rank
  bool log = false;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("axis", op.axis);
    f("log", op.log);
  }
  bool operator==(const Softmax&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode&) const { return axis > 0; }
  // Exponents need more digits than bf16 has.
  NarrowForm narrow_form(const NarrowNode& node) const {
    return NarrowForm::stays_f32("its sums stay in fp32", node.dtype() == DType::f16);
  }
  OnnxForm onnx_form() const { return {log ? "LogSoftmax" : "Softmax", {{"axis", axis}}}; }
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
  std::optional<double> bound() const { return log ? std::nullopt : std::optional(1.0); }
};

}  // namespace temper::ops
