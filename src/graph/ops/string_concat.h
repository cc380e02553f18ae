// SPDX-License-Identifier: Apache-2.0
// string_concat(a string, b string) -> string: each of a with that of b behind it, broadcast to one shape.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct StringConcat {
  static constexpr std::string_view name = "string_concat";
  static constexpr OpKind op_kind = OpKind::string;

  template <class Self, class F>
  static void fields(Self&, F&&) {}
  bool operator==(const StringConcat&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"StringConcat", {}}; }
};

}  // namespace temper::ops
