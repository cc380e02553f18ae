// SPDX-License-Identifier: Apache-2.0
// conv_transpose(x [N,C,spatial...], w [C,M/group,kernel...], epilogue inputs...) -> [N,M,spatial...], the adjoint of
// conv: output size (in - 1) * stride + dilation * (kernel - 1) + 1 + output_padding - pads. The epilogue follows as in
// conv.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/op_kind.h"
#include "graph/operations.h"

namespace temper::ops {

struct ConvTranspose {
  static constexpr std::string_view name = "conv_transpose";
  static constexpr OpKind op_kind = OpKind::convolution;
  std::vector<int64_t> strides, dilations, pads, output_padding;
  int64_t group = 1;
  Program epilogue;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("strides", op.strides);
    f("dilations", op.dilations);
    f("pads", op.pads);
    f("output_padding", op.output_padding);
    f("group", op.group);
    f("epilogue", op.epilogue);
  }
  bool operator==(const ConvTranspose&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const {
    return node.is_batched(0) && !node.is_batched(1) && node.broadcasts(2);
  }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
