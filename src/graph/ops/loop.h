// SPDX-License-Identifier: Apache-2.0
// A loop is two nodes; what depends on the first and leads to the second is its body (graph/control.h).
//   loop_begin(trip? i64, condition? bool, initial...) -> iteration i64 [], condition bool [], carried...
//   loop_end(iteration, trip?, condition bool, carried..., next..., scans...) -> last carried..., stacked scans...
// ONNX's Loop: while the condition holds and fewer than `trip` iterations were run, the body makes the next condition
// and the next carried values; the scans of all iterations are stacked along a new first axis, or those that are joined
// concatenated along the one they have, whose size each iteration may give anew.
#pragma once
#include <limits>

#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

// The number of a loop's iterations may be any that a file holds, or a condition may never end it (docs/limits.md).
constexpr int64_t kMostIterations = int64_t(1) << 24;

// Each stands for all iterations: no single run of it has a result, and no pass may fold it.
struct LoopBegin {
  static constexpr std::string_view name = "loop_begin";
  static constexpr OpKind op_kind = OpKind::other;
  int64_t loop = 0;           // a number of its own: two loops that begin alike are not one
  bool nested = false;        // the last input is the iteration of the loop around it, in whose body it thereby is
  std::vector<int64_t> open;  // pairs (carried value, axis) of dimensions that iterations change

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("loop", op.loop);
    f("nested", op.nested);
    f("open", op.open);
  }
  bool operator==(const LoopBegin&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType>, std::span<const TensorType>) const {
    return std::numeric_limits<double>::infinity();
  }
  OnnxForm onnx_form() const;
};

struct LoopEnd {
  static constexpr std::string_view name = "loop_end";
  static constexpr OpKind op_kind = OpKind::other;
  int64_t carried = 0;              // how many values
  std::vector<int64_t> open;        // as of its loop_begin
  std::vector<int64_t> joined;      // scans
  int64_t limit = kMostIterations;  // a run that makes more is refused

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("carried", op.carried);
    f("open", op.open);
    f("joined", op.joined);
    f("limit", op.limit);
  }
  bool operator==(const LoopEnd&) const = default;
  bool joins(size_t scan) const;
  // The trip is given where it alone decides how many iterations there are.
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  double reference_cost(std::span<const TensorType>, std::span<const TensorType>) const {
    return std::numeric_limits<double>::infinity();
  }
  OnnxForm onnx_form() const;
};

}  // namespace temper::ops
