// SPDX-License-Identifier: Apache-2.0
// nms(boxes [N,B,4], scores [N,C,B], max per class i64, iou threshold f32, score threshold f32) -> i64 [n,3]: for every
// batch and class the boxes that remain, best first, as (batch, class, box). The last three are scalars; absent ones
// are 0, 0 and no threshold. A box is dropped where it overlaps a better one by more than the iou threshold.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Nms {
  static constexpr std::string_view name = "nms";
  static constexpr OpKind op_kind = OpKind::other;
  bool center = false;  // boxes are [x, y, width, height] of their centre; otherwise two opposite corners [y, x, y, x]

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("center", op.center);
  }
  bool operator==(const Nms&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return {"NonMaxSuppression", {{"center_point_box", center}}}; }
};

}  // namespace temper::ops
