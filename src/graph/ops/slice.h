// SPDX-License-Identifier: Apache-2.0
// slice(x): for every axis `sizes` elements from `starts` on in `steps`. Bounds are already clamped: each element
// exists. With more inputs (starts, ends, axes or absent, steps or absent: i64 or i32 vectors as ONNX's Slice has them)
// the bounds are data.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Slice {
  static constexpr std::string_view name = "slice";
  static constexpr OpKind op_kind = OpKind::movement;
  Shape starts, sizes;         // one per axis
  std::vector<int64_t> steps;  // not zero

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("starts", op.starts);
    f("sizes", op.sizes);
    f("steps", op.steps);
  }
  bool operator==(const Slice&) const = default;
  static constexpr size_t data_inputs = 1;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::carrier; }
  // The whole first axis is taken, as it is.
  bool sliceable(const BatchedNode& node) const {
    return node.inputs() == 1 && node.is_batched(0) && starts[0] == Dim(0) && steps[0] == 1 &&
           sizes[0] == node.shape(0)[0];
  }
  void take_slice(int64_t samples) { sizes[0] = samples; }
  Flow flow(size_t input) const { return input == 0 ? Flow::moved : Flow::computed; }
  bool is_no_op(const TensorType& x, size_t inputs) const;
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

// The whole of a tensor of this shape; the caller narrows some axes.
Slice slice_all(const Shape& shape);

}  // namespace temper::ops
