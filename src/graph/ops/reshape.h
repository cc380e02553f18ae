// SPDX-License-Identifier: Apache-2.0
// reshape(x) to `shape`: same elements, row-major order. Import resolves ONNX's 0 and -1. With a second input (i64
// [rank]) the target is data; such a value's dimensions are unknown until it has been computed.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Reshape {
  static constexpr std::string_view name = "reshape";
  static constexpr OpKind op_kind = OpKind::movement;
  Shape shape;
  bool allow_zero = false;  // only with a second input: 0 means an empty axis instead of "as in the input"

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("shape", op.shape);
    f("allow_zero", op.allow_zero);
  }
  bool operator==(const Reshape&) const = default;
  static constexpr size_t data_inputs = 1;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const {
    return node.inputs() == 1 && !node.out().empty() && node.out()[0] == node.shape(0)[0];
  }
  void take_slice(int64_t samples) { shape[0] = samples; }
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::carrier; }
  Flow flow(size_t input) const { return input == 0 ? Flow::moved : Flow::computed; }
  bool is_no_op(const TensorType&, size_t) const { return true; }
};

// ONNX's target (with 0 and -1) for an input of shape `from`.
Shape resolve_reshape(const Shape& from, const Contents& target, bool allow_zero);

}  // namespace temper::ops
