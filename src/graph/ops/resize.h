// SPDX-License-Identifier: Apache-2.0
// resize(x) to `sizes`: one-dimensional interpolation along each axis in turn, with the formulas of ONNX's Resize. With
// more inputs (roi, scales, sizes: as in ONNX's Resize, absent where not given) the result's size is data.
#pragma once
#include "graph/batched_node.h"
#include "graph/fields.h"
#include "graph/flow.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class ResizeKind { nearest, linear, cubic };
constexpr std::array<std::string_view, 3> enum_names(ResizeKind) { return {"nearest", "linear", "cubic"}; }
// How a position in the result becomes one in x.
enum class ResizeCoordinate {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize
};
constexpr std::array<std::string_view, 7> enum_names(ResizeCoordinate) {
  return {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
          "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
}
enum class ResizeNearest { round_prefer_floor, round_prefer_ceil, floor, ceil };
constexpr std::array<std::string_view, 4> enum_names(ResizeNearest) {
  return {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
}
enum class ResizePolicy { stretch, not_larger, not_smaller };
constexpr std::array<std::string_view, 3> enum_names(ResizePolicy) { return {"stretch", "not_larger", "not_smaller"}; }

// One axis: result element o is the sum over t of weight[o * taps + t] * x[index[o * taps + t]].
struct ResizeTable {
  int64_t taps = 1;
  std::vector<int64_t> index;  // -1 in an element's first tap: it is the extrapolation value
  std::vector<double> weight;
};

struct Resize {
  static constexpr std::string_view name = "resize";
  static constexpr OpKind op_kind = OpKind::movement;
  ResizeKind kind = ResizeKind::nearest;
  ResizeCoordinate coordinate = ResizeCoordinate::half_pixel;
  ResizeNearest nearest = ResizeNearest::round_prefer_floor;
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
  double extrapolation = 0;  // tf_crop_and_resize, outside of x
  Shape sizes;               // one per axis
  std::vector<double>
      scales;               // one per axis where the model gave them: they enter the formulas; empty: sizes / x's sizes
  std::vector<double> roi;  // tf_crop_and_resize: starts of all axes, then ends, as fractions of x
  // Only with more inputs:
  std::vector<int64_t> axes;  // that the inputs speak of; empty: all
  ResizePolicy policy = ResizePolicy::stretch;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("coordinate", op.coordinate);
    f("nearest", op.nearest);
    f("cubic_a", op.cubic_a);
    f("exclude_outside", op.exclude_outside);
    f("antialias", op.antialias);
    f("extrapolation", op.extrapolation);
    f("sizes", op.sizes);
    f("scales", op.scales);
    f("roi", op.roi);
    f("axes", op.axes);
    f("policy", op.policy);
  }
  bool operator==(const Resize&) const = default;
  static constexpr size_t data_inputs = 1;
  bool absorb(const InferContext& context);
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  bool is_identity_along(size_t axis, int64_t in, int64_t out) const;
  ResizeTable table(size_t axis, int64_t in, int64_t out) const;
  // Where the batch stays as it is; with more inputs the result's size is data.
  bool sliceable(const BatchedNode& node) const {
    return node.inputs() == 1 && is_identity_along(0, node.shape(0)[0].value(), node.out()[0].value());
  }
  void take_slice(int64_t samples) { sizes[0] = samples; }
  NarrowForm narrow_form(const NarrowNode& node) const;
  Flow flow(size_t input) const;
  bool is_no_op(const TensorType& x, size_t inputs) const;
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

}  // namespace temper::ops
