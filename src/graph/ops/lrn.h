// SPDX-License-Identifier: Apache-2.0
// lrn(x [N,C,...]) -> like x: x / (bias + alpha/size * s)^beta, where s sums the squares of the `size` channels around
// this one, floor((size-1)/2) before and ceil((size-1)/2) after it.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Lrn {
  static constexpr std::string_view name = "lrn";
  static constexpr OpKind op_kind = OpKind::normalization;
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, bias = 1;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("size", op.size);
    f("alpha", op.alpha);
    f("beta", op.beta);
    f("bias", op.bias);
  }
  bool operator==(const Lrn&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"LRN", {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", bias}}}; }
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
