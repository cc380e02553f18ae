// SPDX-License-Identifier: Apache-2.0
// unique(x) -> the different elements (or, with an axis, slices along it), then as i64 vectors: where each first
// occurs, which one each element of x is, how often each occurs. Ascending (slices compared element by element), or in
// order of first occurrence. Without an axis x is read flat.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Unique {
  static constexpr std::string_view name = "unique";
  static constexpr OpKind op_kind = OpKind::other;
  int64_t axis = -1;  // -1: flat
  bool sorted = true;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("axis", op.axis);
    f("sorted", op.sorted);
  }
  bool operator==(const Unique&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const;
};

}  // namespace temper::ops
