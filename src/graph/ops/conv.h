// SPDX-License-Identifier: Apache-2.0
// conv(x [N,C,spatial...], w [M,C/group,kernel...], epilogue inputs...) -> [N,M,spatial...]: cross-correlation in 1 to
// 3 spatial dimensions, followed by the epilogue program (bias, residual, activation, ... are all programs). x and w
// have one dtype, or x is i8 or u8 and w is i8: then the accumulator is i32 and the epilogue starts there. That of bf16
// and f16 is f32.
#pragma once
#include "graph/batched_node.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"
#include "graph/operations.h"
#include "graph/ops/window.h"

namespace temper::ops {

struct Conv {
  static constexpr std::string_view name = "conv";
  static constexpr OpKind op_kind = OpKind::convolution;
  std::vector<int64_t> strides, dilations, pads;
  PadMode pad_mode = PadMode::explicit_pads;
  int64_t group = 1;
  bool tf32 = false;  // operands of f32 may be rounded to the 10 bits of TF32 where that is quicker
  Program epilogue;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("strides", op.strides);
    f("dilations", op.dilations);
    f("pads", op.pads);
    f("pad_mode", op.pad_mode);
    f("group", op.group);
    f("tf32", op.tf32);
    f("epilogue", op.epilogue);
  }
  bool operator==(const Conv&) const = default;
  Window window(const Dims& weight_dims) const;
  Dims output_dims(const Dims& x, const Dims& weights) const;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const {
    return node.is_batched(0) && !node.is_batched(1) && node.broadcasts(2);
  }
  NarrowForm narrow_form(const NarrowNode& node) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
