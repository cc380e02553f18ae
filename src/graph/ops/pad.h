// SPDX-License-Identifier: Apache-2.0
// pad(x, value?): `before` and `after` elements around every axis; negative ones crop. constant fills with `value` (a
// scalar of x's dtype; 0 when absent), edge repeats the border, reflect mirrors without it, wrap continues at the other
// end. With more inputs (pads, axes or absent: i64 vectors as in ONNX's Pad) the amounts are data.
#pragma once
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class PadKind { constant, edge, reflect, wrap };
constexpr std::array<std::string_view, 4> enum_names(PadKind) { return {"constant", "edge", "reflect", "wrap"}; }

struct Pad {
  static constexpr std::string_view name = "pad";
  static constexpr OpKind op_kind = OpKind::movement;
  Shape before, after;  // one per axis
  PadKind kind = PadKind::constant;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("before", op.before);
    f("after", op.after);
    f("kind", op.kind);
  }
  bool operator==(const Pad&) const = default;
  static constexpr size_t data_inputs = 2;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode& node) const;
  Flow flow(size_t input) const { return input == 0 ? Flow::filled : Flow::computed; }
  bool is_no_op(const TensorType& x, size_t inputs) const;
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

}  // namespace temper::ops
