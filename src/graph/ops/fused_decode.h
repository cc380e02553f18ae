// SPDX-License-Identifier: Apache-2.0
// Ops with what stands before them in models that generate, where a token is a few rows and the number of launches is
// what takes time; and normalisations of any number of rows that begin with rows of tables. They mean what their parts
// mean, one after the other. Only fuse_few_rows (passes/) makes them, for backends that ask for it.
#pragma once
#include "graph/ops/append.h"
#include "graph/ops/attention.h"
#include "graph/ops/blocked_matmul.h"
#include "graph/ops/fused.h"
#include "graph/ops/gather.h"
#include "graph/ops/matmul.h"

namespace temper::ops {

// normalized_matmul(x, inputs of `between`..., b, epilogue inputs...) = matmul(between(normalize(x)), b, ...). x is of
// 16 bits; as in fused_normalize, it is normalised in f32, and so begins `between`, which rounds to the dtype of b.
// With block_rows > 0 the product is a blocked_matmul, whose three inputs of weights stand in the place of b.
struct NormalizedMatMul {
  static constexpr std::string_view name = "normalized_matmul";
  static constexpr OpKind op_kind = OpKind::matmul;
  Normalize normalize;
  Program between;
  MatMul product;
  int64_t block_rows = 0, block_columns = 0;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    Normalize::fields(op.normalize, f);
    f("between", op.between);
    MatMul::fields(op.product, f);
    f("block_rows", op.block_rows);
    f("block_columns", op.block_columns);
  }
  bool operator==(const NormalizedMatMul&) const = default;
  bool in_blocks() const { return block_rows > 0; }
  BlockedMatMul blocked_product() const { return {product.transpose_b, block_rows, block_columns, product.epilogue}; }
  size_t normalize_inputs() const { return size_t(between.inputs); }  // of the node's inputs, so many come first
  FusedNormalize before() const { return {{}, normalize, between, false}; }
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// computed_gather(x, i) = gather(x, index(i)): a program of one input, i64 as its result, makes each index.
struct ComputedGather {
  static constexpr std::string_view name = "computed_gather";
  static constexpr OpKind op_kind = OpKind::movement;
  Gather gather;
  Program index;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    Gather::fields(op.gather, f);
    f("index", op.index);
  }
  bool operator==(const ComputedGather&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// gathered_normalize(inputs of a fused_normalize..., an index i64 for each table) = fused_normalize of rows: in the
// place of its first `tables` inputs, all of the prologue, stand tables [N_i,C], of which indices pick rows. The
// indices of all tables have the same shape, the results have it with the axis C behind.
struct GatheredNormalize {
  static constexpr std::string_view name = "gathered_normalize";
  static constexpr OpKind op_kind = OpKind::normalization;
  FusedNormalize fused;
  int64_t tables = 1;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    FusedNormalize::fields(op.fused, f);
    f("tables", op.tables);
  }
  bool operator==(const GatheredNormalize&) const = default;
  // The shape of the rows that indices of this shape pick.
  static Shape row_shape(const Shape& index, const Shape& table);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

// appending_attention(q, k, new keys, v, new values, held i64 [B], mask?, lengths? i64 [B]) -> y, and k and v with the
// new rows: append(k, new keys, held), append(v, new values, held), and the attention of q on these. Kernels write k
// and v in place where the outputs are their memory, and copy them otherwise. `behind_new`: the lengths are held + 1,
// of one new position, and no input. `given`: k and v are inputs of the graph, so that no kernel before this one writes
// them while it runs; the meaning is the same.
struct AppendingAttention {
  static constexpr std::string_view name = "appending_attention";
  static constexpr OpKind op_kind = OpKind::attention;
  static constexpr size_t kOwnInputs = 6;  // before those that an attention has behind v
  Attention attention;
  bool behind_new = false, given = false;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    Attention::fields(op.attention, f);
    f("behind_new", op.behind_new);
    f("given", op.given);
  }
  bool operator==(const AppendingAttention&) const = default;
  // The inputs of the attention alone, as `inputs` of any kind has them: its keys and values are the caches.
  template <class T>
  static std::vector<T> attention_inputs(std::span<const T> inputs) {
    std::vector<T> own{inputs[0], inputs[1], inputs[3]};
    own.insert(own.end(), inputs.begin() + kOwnInputs, inputs.end());
    return own;
  }
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return not_in_onnx(name); }
};

}  // namespace temper::ops
