// SPDX-License-Identifier: Apache-2.0
// grid_sample(x [N,C,D...], grid [N,out...,r]) -> [N,C,out...]: x at the positions in grid, whose last axis names a
// place in the r axes D of x, last axis first, -1 and 1 being the borders.
#pragma once
#include <array>

#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class SampleKind { nearest, linear, cubic };
constexpr std::array<std::string_view, 3> enum_names(SampleKind) { return {"nearest", "linear", "cubic"}; }
enum class SamplePadding { zeros, border, reflection };
constexpr std::array<std::string_view, 3> enum_names(SamplePadding) { return {"zeros", "border", "reflection"}; }

struct GridSample {
  static constexpr std::string_view name = "grid_sample";
  static constexpr OpKind op_kind = OpKind::other;
  SampleKind kind = SampleKind::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  // the borders are the centres of the outermost elements, not their edges

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("padding", op.padding);
    f("align_corners", op.align_corners);
  }
  bool operator==(const GridSample&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const;
};

// The elements and weights that make a sample along one axis.
struct SampleTaps {
  int count = 1;                 // 1, 2 or 4
  std::array<int64_t, 4> index;  // of elements; -1: outside, which counts as 0
  std::array<double, 4> weight;
};
// `place`: a number of the grid; `size`: elements of the axis, at least one.
SampleTaps sample_taps(const GridSample& op, double place, int64_t size);

}  // namespace temper::ops
