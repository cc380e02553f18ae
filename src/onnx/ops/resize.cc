// SPDX-License-Identifier: Apache-2.0
// Imports Resize and Upsample.
#include "graph/ops/resize.h"

#include "onnx/node.h"

namespace temper {

namespace {
template <class E>
E one_of(OnnxNode& node, const char* attribute, std::string standard) {
  const std::string word = node.string_attribute(attribute, std::move(standard));
  const auto names = enum_names(E{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == word) return E(i);
  node.bad(std::string_view(attribute), " is '", word, "'");
}

ops::ResizeKind kind_of(OnnxNode& node) {
  const std::string word = node.string_attribute("mode", "nearest");
  if (word == "nearest") return ops::ResizeKind::nearest;
  if (word == "linear" || word == "bilinear" || word == "trilinear") return ops::ResizeKind::linear;
  if (word == "cubic") return ops::ResizeKind::cubic;
  node.bad("mode is '", word, "'");
}

// Upsample, and Resize before opset 11, know no coordinate modes: positions are scaled from the corner. Downwards, ONNX
// left the rounding of `nearest` open; the common implementation rounds up.
void add_old_resize(OnnxNode& node, ValueId scales, bool may_shrink) {
  ops::Resize op;
  op.kind = kind_of(node);
  op.coordinate = ops::ResizeCoordinate::asymmetric;
  op.nearest = ops::ResizeNearest::floor;
  const Tensor* known = node.graph().constant(scales);
  if (known) {
    bool up = false, down = false;
    for (double scale : known->to_doubles()) up |= scale > 1, down |= scale < 1;
    if (down && !may_shrink) node.bad("a scale is below 1");
    if (down && op.kind == ops::ResizeKind::nearest) {
      if (up) node.unsupported("mode nearest that enlarges one axis and reduces another, in opset ", node.opset());
      op.nearest = ops::ResizeNearest::ceil;
    }
  } else if (may_shrink && op.kind == ops::ResizeKind::nearest) {
    node.unsupported("scales that are not constant, with mode nearest in opset ", node.opset());
  }
  node.set_output(0, node.add(op, {node.input(0), {}, scales, {}}));
}
}  // namespace

void import_Upsample(OnnxNode& node) {
  if (node.opset() >= 10) node.refuse("Upsample does not exist in opset ", node.opset());
  ValueId scales;
  if (node.opset() >= 9) {
    scales = node.input(1);
  } else {
    std::vector<double> values = node.floats_attribute("scales", {});
    if (node.opset() < 7)
      values = {1, 1, node.float_attribute("height_scale", 0), node.float_attribute("width_scale", 0)};
    scales = node.constant(Tensor::of<double>({int64_t(values.size())}, values).converted(DType::f32));
  }
  add_old_resize(node, scales, false);
}

void import_Resize(OnnxNode& node) {
  if (node.opset() < 11) return add_old_resize(node, node.input(1), true);
  ops::Resize op;
  op.kind = kind_of(node);
  op.coordinate = one_of<ops::ResizeCoordinate>(node, "coordinate_transformation_mode", "half_pixel");
  if (op.coordinate == ops::ResizeCoordinate::tf_half_pixel_for_nn && node.opset() >= 13)
    node.bad("coordinate_transformation_mode tf_half_pixel_for_nn does not exist in opset ", node.opset());
  op.nearest = one_of<ops::ResizeNearest>(node, "nearest_mode", "round_prefer_floor");
  op.cubic_a = node.float_attribute("cubic_coeff_a", -0.75);
  op.exclude_outside = node.int_attribute("exclude_outside", 0) != 0;
  op.extrapolation = node.float_attribute("extrapolation_value", 0);
  op.antialias = node.int_attribute("antialias", 0) != 0;
  op.policy = one_of<ops::ResizePolicy>(node, "keep_aspect_ratio_policy", "stretch");
  op.axes = node.ints_attribute("axes", {});
  for (int64_t& axis : op.axes) axis = normalize_axis(axis, node.type(0).rank());
  for (size_t i = 0; i < op.axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (op.axes[i] == op.axes[j]) node.bad("axis ", op.axes[i], " is named twice");
  if (op.kind != ops::ResizeKind::nearest) op.nearest = ops::ResizeNearest::round_prefer_floor;
  if (op.kind != ops::ResizeKind::cubic) op.cubic_a = -0.75;
  // Before opset 13 an input that is not given may be written as an empty tensor.
  auto given = [&](size_t i) { return node.has(i) && node.type(i).shape != Shape{Dim(0)}; };
  const bool crop = op.coordinate == ops::ResizeCoordinate::tf_crop_and_resize;
  if (!crop) op.extrapolation = 0;
  if (crop && !given(1)) node.bad("tf_crop_and_resize needs roi");
  if (given(2) == given(3)) node.bad("exactly one of scales and sizes must be given");
  if (given(2) && crop)
    node.refuse("tf_crop_and_resize with scales: ONNX's text and its implementations give different sizes; use sizes");
  node.set_output(0, node.add(op, {node.input(0), crop ? node.input(1) : ValueId{},
                                   given(2) ? node.input(2) : ValueId{}, given(3) ? node.input(3) : ValueId{}}));
}

}  // namespace temper
