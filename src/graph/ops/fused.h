// SPDX-License-Identifier: Apache-2.0
// Ops with the pointwise programs that stand before and behind them: what a kernel can do in one go, so that what lies
// between never goes to memory. They mean what their parts mean, one after the other. Only fuse_neighbours
// (passes/fuse_neighbours.h) makes them, for backends that ask for it.
#pragma once
#include "graph/ops/conv.h"
#include "graph/ops/reduce.h"

namespace temper::ops {

// fused_conv(x, w, epilogue inputs...) = conv(prologue(x), w, ...).
struct FusedConv {
  static constexpr std::string_view name = "fused_conv";
  Program prologue;  // of one input
  Conv conv;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("prologue", op.prologue);
    Conv::fields(op.conv, f);
  }
  bool operator==(const FusedConv&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

// fused_reduce(x) = epilogue(reduce(prologue(x))); the axes are fields.
struct FusedReduce {
  static constexpr std::string_view name = "fused_reduce";
  Program prologue, epilogue;  // of one input each
  Reduce reduce;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("prologue", op.prologue);
    Reduce::fields(op.reduce, f);
    f("epilogue", op.epilogue);
  }
  bool operator==(const FusedReduce&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
