// SPDX-License-Identifier: Apache-2.0
// string_cast(x) -> dtype: strings as the numbers that they spell, or numbers as strings. A float becomes the shortest
// text that reads back as it, as NumPy writes it: "3.0", "1e-05", "inf", "nan"; true becomes "True".
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct StringCast {
  static constexpr std::string_view name = "string_cast";
  static constexpr OpKind op_kind = OpKind::string;
  DType dtype = DType::string;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("dtype", op.dtype);
  }
  bool operator==(const StringCast&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  // Throws Error{usage} for a string that is no number, or none that dtype holds.
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"Cast", {{"to", dtype}}}; }
};

}  // namespace temper::ops
