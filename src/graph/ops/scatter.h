// SPDX-License-Identifier: Apache-2.0
// scatter(x, indices, updates): a copy of x with elements replaced by, or combined with, updates; in row-major order of
// the updates where several meet. Indices are i32 or i64 and count from the end where negative.
//   elements: out[i... with i[axis] replaced by indices[i...]] <- updates[i...]
//   nd:       the last axis of the indices is a position in the first axes of x; updates holds what goes there
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class ScatterKind { elements, nd };
constexpr std::array<std::string_view, 2> enum_names(ScatterKind) { return {"elements", "nd"}; }
enum class ScatterReduction { none, add, mul, max, min };
constexpr std::array<std::string_view, 5> enum_names(ScatterReduction) { return {"none", "add", "mul", "max", "min"}; }

struct Scatter {
  static constexpr std::string_view name = "scatter";
  static constexpr OpKind op_kind = OpKind::other;
  ScatterKind kind = ScatterKind::elements;
  int64_t axis = 0;  // elements: 0 <= axis < rank
  ScatterReduction reduction = ScatterReduction::none;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("axis", op.axis);
    f("reduction", op.reduction);
  }
  bool operator==(const Scatter&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const;
};

}  // namespace temper::ops
