// SPDX-License-Identifier: Apache-2.0
// reduce(x) over `axes` (sorted, 0 <= axis < rank). Global pools and the Reduce* family are this op. With a second
// input (i64 [n]) the axes are data, as ONNX writes them: negative ones count from the end, none means all.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"
#include "graph/operations.h"

namespace temper::ops {

enum class ReduceKind { sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square };
constexpr std::array<std::string_view, 10> enum_names(ReduceKind) {
  return {"sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"};
}

struct Reduce {
  static constexpr std::string_view name = "reduce";
  static constexpr OpKind op_kind = OpKind::reduction;
  ReduceKind kind = ReduceKind::sum;
  std::vector<int64_t> axes;
  bool keepdims = true;
  bool noop_with_empty_axes = false;  // only with a second input: no axes means no reduction

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("axes", op.axes);
    f("keepdims", op.keepdims);
    f("noop_with_empty_axes", op.noop_with_empty_axes);
  }
  bool operator==(const Reduce&) const = default;
  static constexpr size_t data_inputs = 1;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool sliceable(const BatchedNode&) const { return axes.empty() || axes[0] > 0; }
  NarrowForm narrow_form(const NarrowNode&) const;
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
  Flow flow(size_t input) const;
  bool is_no_op(const TensorType& x, size_t inputs) const;
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

// ONNX's axes as sorted axes of a tensor of that rank; throws Error{bad_file} for one that is not there or twice there.
std::vector<int64_t> resolve_axes(std::vector<int64_t> axes, int64_t rank, bool empty_means_none = false);

}  // namespace temper::ops
