// SPDX-License-Identifier: Apache-2.0
// pointwise(inputs...) -> one output: a program applied to each element, inputs broadcast as numpy does.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"
#include "graph/operations.h"

namespace temper::ops {

struct Pointwise {
  static constexpr std::string_view name = "pointwise";
  static constexpr OpKind op_kind = OpKind::pointwise;
  Program program;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("program", op.program);
  }
  bool operator==(const Pointwise&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const { return node.broadcasts(0); }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  bool is_no_op(const TensorType&, size_t inputs) const { return inputs == 1 && program.is_identity(); }
};

// The dtype that a product of x and w is summed in: i32 for 8-bit integers (x i8 or u8, w i8), f32 for bf16,
// f16 and f8e4m3fn, the one dtype of both otherwise. Throws Error{bad_file} for other pairs.
DType accumulator_of(DType x, DType w);

// The dtype of an epilogue's result and a check that its extra inputs broadcast to `shape`. `accumulator` is the dtype
// of input 0; the extra inputs are context's inputs from `first` on.
DType infer_epilogue(const Program& epilogue, DType accumulator, const Shape& shape, const InferContext& context,
                     size_t first);

}  // namespace temper::ops
