// SPDX-License-Identifier: Apache-2.0
// append(x [B,C,W], rows [B,S,W], lengths i64 [B]) -> like x: x with rows[b, i] in the place of x[b, lengths[b] + i].
// So a cache of C positions takes S new ones behind the lengths[b] that each row of the batch holds; a length below 0
// or above C - S is an error of the run. Kernels write in place where y is the memory of x, and copy x otherwise.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Append {
  static constexpr std::string_view name = "append";
  static constexpr OpKind op_kind = OpKind::movement;

  template <class Self, class F>
  static void fields(Self&, F&&) {}
  bool operator==(const Append&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const;
  Flow flow(size_t input) const { return input < 2 ? Flow::moved : Flow::computed; }
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowForm::carries(2); }
  OnnxForm onnx_form() const { return {"TensorScatter", {{"axis", 1}}}; }
};

// Throws Error{usage} where `rows` new positions do not fit behind these `length` of `positions`, of row `batch`.
void expect_room(int64_t length, int64_t rows, int64_t positions, int64_t batch);

}  // namespace temper::ops
