// SPDX-License-Identifier: Apache-2.0
// shape(x) -> i64 [end-start]: the dimensions of x from axis `start` to before `end`. It folds away wherever shapes are
// known.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct ShapeOf {
  static constexpr std::string_view name = "shape";
  static constexpr OpKind op_kind = OpKind::other;
  int64_t start = 0, end = 0;  // 0 <= start <= end <= rank

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("start", op.start);
    f("end", op.end);
  }
  bool operator==(const ShapeOf&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"Shape", {{"start", start}, {"end", end}}}; }
};

}  // namespace temper::ops
