// SPDX-License-Identifier: Apache-2.0
// choose(condition bool of one element, then..., else...) -> as many values as either side has: those of the side that
// the condition names. Only that side is computed (graph/control.h). An absent value: that side was left out, because
// it does not fit the shapes at hand or what reads its results.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Choose {
  static constexpr std::string_view name = "choose";
  static constexpr OpKind op_kind = OpKind::other;
  std::vector<int64_t> open;  // pairs (value, axis) of dimensions in which the sides differ

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("open", op.open);
  }
  bool operator==(const Choose&) const = default;
  // An open dimension is unknown until the condition is known.
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const {
    return OnnxForm::none("a branch that is chosen at run time is not written as ONNX; use the model that it is from");
  }
};

// In a choose of `count` values, the input that is the first of a side.
constexpr size_t first_of_side(bool then, size_t count) { return then ? 1 : 1 + count; }
// Throws Error{unsupported}: what the condition chooses was left out.
[[noreturn]] void fail_left_out();

// Whether `open` holds the pair; such lists are short.
bool is_open(const std::vector<int64_t>& open, size_t value, size_t axis);

}  // namespace temper::ops
