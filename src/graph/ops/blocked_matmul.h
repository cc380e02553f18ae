// SPDX-License-Identifier: Apache-2.0
// blocked_matmul(a [...,M,K], x i8|u8, scale f32, zero f32?, epilogue inputs...) -> [...,M,N]: the matmul of a and
// dequantize_blocks(x, scale, zero), which is [K,N], or [N,K] with transpose_b. a is f32, f16 or bf16; the weights are
// not rounded to its dtype, and the epilogue begins at a sum of f32. Only fuse_blocks (passes/) makes it, for backends
// that multiply by weights of few bits as they are stored.
#pragma once
#include "graph/batched_node.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"
#include "graph/operations.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"

namespace temper::ops {

struct BlockedMatMul {
  static constexpr std::string_view name = "blocked_matmul";
  static constexpr OpKind op_kind = OpKind::matmul;
  static constexpr size_t kOwnInputs = 4;  // a, x, scale, zero (which may be absent)
  bool transpose_b = false;
  int64_t block_rows = 1, block_columns = 1;  // of x, as it is stored
  Program epilogue;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("transpose_b", op.transpose_b);
    f("block_rows", op.block_rows);
    f("block_columns", op.block_columns);
    f("epilogue", op.epilogue);
  }
  bool operator==(const BlockedMatMul&) const = default;
  DequantizeBlocks weights() const { return {block_rows, block_columns}; }
  MatMul product() const { return {.transpose_b = transpose_b, .epilogue = epilogue}; }
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const {
    return OnnxForm::none("ONNX has no blocked_matmul; write the graph that was not yet fused for a device");
  }
};

}  // namespace temper::ops
