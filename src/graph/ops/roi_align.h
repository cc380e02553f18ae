// SPDX-License-Identifier: Apache-2.0
// roi_align(x [N,C,H,W], rois [R,4] as x0,y0,x1,y1, batch of each roi [R]) -> [R,C,height,width]: each region is cut
// into height x width bins, and each bin is the mean (or maximum) of samples that are interpolated linearly.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

enum class RoiKind { avg, max };
constexpr std::array<std::string_view, 2> enum_names(RoiKind) { return {"avg", "max"}; }

struct RoiAlign {
  static constexpr std::string_view name = "roi_align";
  static constexpr OpKind op_kind = OpKind::other;
  RoiKind kind = RoiKind::avg;
  int64_t height = 1, width = 1;
  int64_t sampling_ratio = 0;  // samples per bin and axis; 0: as many as the bin has elements, rounded up
  double spatial_scale = 1;
  bool half_pixel = true;  // regions are shifted by half an element; otherwise they are also at least one element wide

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("kind", op.kind);
    f("height", op.height);
    f("width", op.width);
    f("sampling_ratio", op.sampling_ratio);
    f("spatial_scale", op.spatial_scale);
    f("half_pixel", op.half_pixel);
  }
  bool operator==(const RoiAlign&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const;
  double reference_cost(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

// A region along one axis: where it starts, in elements, how large its bins are, and how many samples each has.
struct RoiAxis {
  double start, bin;
  int64_t samples;
};
// `first`, `last`: the region's borders as given; `bins`: along this axis. Throws Error{usage} where the bins of region
// `number` are too large.
RoiAxis roi_axis(const RoiAlign& op, double first, double last, int64_t bins, int64_t number);

// Sample i of a bin along an axis of `size` elements lies between two of these.
struct RoiSample {
  int64_t low, high;
  double weight;  // of the high one
  bool inside;    // else the sample is zero
};
RoiSample roi_sample(const RoiAxis& axis, int64_t bin, int64_t i, int64_t size);

}  // namespace temper::ops
