// SPDX-License-Identifier: Apache-2.0
// matmul(a [...,M,K], b [...,K,N], epilogue inputs...) -> [...,M,N]: batch axes broadcast as in numpy; a or b may be
// stored transposed in their last two axes. Both have rank >= 2: import lowers vectors by reshape.
// a and b have one dtype, or a is i8 or u8 and b is i8: then the accumulator is i32 and the epilogue starts there.
// That of bf16, f16 and f8e4m3fn is f32.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"
#include "graph/operations.h"

namespace temper::ops {

struct MatMul {
  static constexpr std::string_view name = "matmul";
  static constexpr OpKind op_kind = OpKind::matmul;
  bool transpose_a = false, transpose_b = false;
  bool tf32 = false;  // as of a convolution
  Program epilogue;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("transpose_a", op.transpose_a);
    f("transpose_b", op.transpose_b);
    f("tf32", op.tf32);
    f("epilogue", op.epilogue);
  }
  bool operator==(const MatMul&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowRole::product; }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
