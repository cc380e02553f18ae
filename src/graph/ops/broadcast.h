// SPDX-License-Identifier: Apache-2.0
// broadcast(x) to `shape`, as numpy does. With a second input (i64 [rank]) the shape is data, and x and it are
// broadcast together as ONNX's Expand does.
#pragma once
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Broadcast {
  static constexpr std::string_view name = "broadcast";
  static constexpr OpKind op_kind = OpKind::movement;
  Shape shape;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("shape", op.shape);
  }
  bool operator==(const Broadcast&) const = default;
  static constexpr size_t data_inputs = 1;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::carrier; }
  Flow flow(size_t input) const { return input == 0 ? Flow::moved : Flow::computed; }
  bool is_no_op(const TensorType& x, size_t inputs) const;
};

}  // namespace temper::ops
