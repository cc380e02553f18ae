// SPDX-License-Identifier: Apache-2.0
// Ops with the programs, pools and convolutions that stand before and behind them: what a kernel can do in one go, so
// that what lies between never goes to memory. They mean what their parts mean, one after the other. Only
// fuse_neighbours, chain_convs and join_shortcuts (passes/) make them, for backends that ask for it.
#pragma once
#include "graph/batched_node.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"
#include "graph/operations.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"

namespace temper::ops {

// Only the graph inside a plan has such ops: what is written is the model before.
inline OnnxForm not_in_onnx(std::string_view name) {
  return OnnxForm::none(concat("ONNX has no ", name, "; write the graph that was not yet fused for a device"));
}

// fused_conv(x, w, epilogue inputs..., inputs of the prologue behind x...) = max_pool(conv(prologue(x, ...), w, ...)).
// Inputs that the prologue reads besides x broadcast to its shape.
struct FusedConv {
  static constexpr std::string_view name = "fused_conv";
  static constexpr OpKind op_kind = OpKind::convolution;
  Program prologue;
  Conv conv;
  std::vector<int64_t> pool_kernel, pool_strides, pool_pads;  // as in Pool, without dilations; all empty: no pool

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("prologue", op.prologue);
    Conv::fields(op.conv, f);
    f("pool_kernel", op.pool_kernel);
    f("pool_strides", op.pool_strides);
    f("pool_pads", op.pool_pads);
  }
  bool operator==(const FusedConv&) const = default;
  // How many of `inputs` are the convolution's: x, w and those of its epilogue.
  size_t own_inputs(size_t inputs) const;
  bool pools() const { return !pool_kernel.empty() || !pool_strides.empty() || !pool_pads.empty(); }
  Pool pool() const;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const { return conv.sliceable(node); }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

// The fields of a second convolution beside those of the first.
template <class Self, class F>
void shortcut_fields(Self& conv, F&& f) {
  Conv::fields(conv, [&](std::string_view field, auto& value) { f(concat("shortcut_", field), value); });
}

// conv_chain(x, w, inputs of the epilogue..., v [M,C,1,...], inputs of `then`...) = then(conv(conv(x, w, ...), v)):
// behind a convolution one whose kernel has a single tap, with strides of 1 and no padding. With then_inputs another
// such one follows, u and inputs of `third`: conv(y, u) is a second output beside y, the first. With shortcut_inputs a
// shortcut's are the last ones; its result is an input of the second's epilogue, as below.
struct ConvChain {
  static constexpr std::string_view name = "conv_chain";
  static constexpr OpKind op_kind = OpKind::convolution;
  Conv first;
  int64_t first_inputs = 0;     // of the inputs, so many are its own
  Program then;                 // the epilogue of the second
  int64_t then_inputs = 0;      // of those behind, so many are the second's, where a third follows
  Program third;                // its epilogue
  int64_t shortcut_inputs = 0;  // of the last inputs, so many are a shortcut's, where there is one
  int64_t shortcut_at = 0;      // its result is an input of the second before that one of them, of which x is the first
  Conv shortcut;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    Conv::fields(op.first, f);
    f("first_inputs", op.first_inputs);
    f("then", op.then);
    f("then_inputs", op.then_inputs);
    f("third", op.third);
    f("shortcut_inputs", op.shortcut_inputs);
    f("shortcut_at", op.shortcut_at);
    shortcut_fields(op.shortcut, f);
  }
  bool operator==(const ConvChain&) const = default;
  bool has_third() const { return then_inputs > 0; }
  bool has_shortcut() const { return shortcut_inputs > 0; }
  Conv behind(const Program& epilogue) const;  // the second, with `then`, or the third; all may round to TF32, or none
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// shortcut_conv(x, w, inputs of the epilogue..., v, u, inputs of the shortcut's epilogue...) = conv(x, w, ...), where
// conv(v, u, ...), the shortcut, is an input of the first one's epilogue, as a residual block adds its projection (He
// et al., Deep Residual Learning for Image Recognition, 2015).
struct ShortcutConv {
  static constexpr std::string_view name = "shortcut_conv";
  static constexpr OpKind op_kind = OpKind::convolution;
  Conv conv;
  int64_t conv_inputs = 0;  // of the inputs, so many are its own
  int64_t shortcut_at = 0;  // the shortcut's result is an input of `conv` before that one of them; all of its shape
  Conv shortcut;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    Conv::fields(op.conv, f);
    f("conv_inputs", op.conv_inputs);
    f("shortcut_at", op.shortcut_at);
    shortcut_fields(op.shortcut, f);
  }
  bool operator==(const ShortcutConv&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// fused_reduce(x) = epilogue(reduce(prologue(x))); the axes are fields.
struct FusedReduce {
  static constexpr std::string_view name = "fused_reduce";
  static constexpr OpKind op_kind = OpKind::reduction;
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
  bool sliceable(const BatchedNode& node) const { return reduce.sliceable(node); }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// The dtype in which rows of `x` are normalised where programs stand around that: f32 for f16 and bf16.
DType row_dtype(DType x);

// fused_normalize(inputs of the prologue..., inputs of the epilogue...) = epilogue(normalize(prologue(...))): input 0
// has the shape of the result, others broadcast to it. What is normalised is in row_dtype of what the prologue gives,
// and so begins the epilogue. With gives_input that of the prologue is a second output.
struct FusedNormalize {
  static constexpr std::string_view name = "fused_normalize";
  static constexpr OpKind op_kind = OpKind::normalization;
  Program prologue;
  Normalize normalize;
  Program epilogue;
  bool gives_input = false;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("prologue", op.prologue);
    Normalize::fields(op.normalize, f);
    f("epilogue", op.epilogue);
    f("gives_input", op.gives_input);
  }
  bool operator==(const FusedNormalize&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// fused_softmax(inputs of the prologue..., inputs of the epilogue...) = epilogue(softmax(prologue(...))), likewise.
struct FusedSoftmax {
  static constexpr std::string_view name = "fused_softmax";
  static constexpr OpKind op_kind = OpKind::softmax;
  Program prologue;
  Softmax softmax;
  Program epilogue;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("prologue", op.prologue);
    Softmax::fields(op.softmax, f);
    f("epilogue", op.epilogue);
  }
  bool operator==(const FusedSoftmax&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
  bool sliceable(const BatchedNode& node) const { return softmax.sliceable(node) && node.broadcasts(0); }
};

// gated_matmul(a, w, inputs of the product's epilogue...) = gate(first half of the columns, second half) of
// matmul(a, w, ...), as GEGLU and SwiGLU are.
struct GatedMatMul {
  static constexpr std::string_view name = "gated_matmul";
  static constexpr OpKind op_kind = OpKind::matmul;
  MatMul product;
  Program gate;  // of two inputs

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    MatMul::fields(op.product, f);
    f("gate", op.gate);
  }
  bool operator==(const GatedMatMul&) const = default;
  // The type of the product, before its halves become one, where that has type `out`.
  TensorType product_type(std::span<const TensorType> inputs, const TensorType& out) const;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const { return product.sliceable(node); }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
