// SPDX-License-Identifier: Apache-2.0
// pool(x [N,C,spatial...]) -> [N,C,spatial...] and, for max with_indices, the i64 position of each maximum in the
// flattened input. Global pools are reduce.
#pragma once
#include "graph/batched_node.h"
#include "graph/flow.h"
#include "graph/narrow.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"
#include "graph/operations.h"
#include "graph/ops/window.h"

namespace temper::ops {

enum class PoolKind { max, average, lp };
constexpr std::array<std::string_view, 3> enum_names(PoolKind) { return {"max", "average", "lp"}; }

struct Pool {
  static constexpr std::string_view name = "pool";
  static constexpr OpKind op_kind = OpKind::pooling;
  PoolKind kind = PoolKind::max;
  std::vector<int64_t> kernel, strides, dilations, pads;
  PadMode pad_mode = PadMode::explicit_pads;
  bool ceil_mode = false;
  bool count_include_pad = false;  // average: padded positions count in the divisor
  bool with_indices = false;       // max
  bool column_major = false;       // indices count in column-major order (ONNX storage_order = 1)
  int64_t p = 2;                   // lp: (sum |x|^p)^(1/p)

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("kernel", op.kernel);
    f("strides", op.strides);
    f("dilations", op.dilations);
    f("pads", op.pads);
    f("pad_mode", op.pad_mode);
    f("ceil_mode", op.ceil_mode);
    f("count_include_pad", op.count_include_pad);
    f("with_indices", op.with_indices);
    f("column_major", op.column_major);
    f("p", op.p);
  }
  bool operator==(const Pool&) const = default;
  Window window() const { return {kernel, strides, dilations, pads, pad_mode, ceil_mode}; }
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode& node) const { return node.is_batched(0) && node.outputs() == 1; }
  NarrowForm narrow_form(const NarrowNode&) const;
  OnnxForm onnx_form() const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  Flow flow(size_t input) const;
  bool is_no_op(const TensorType& x, size_t inputs) const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
