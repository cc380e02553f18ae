// SPDX-License-Identifier: Apache-2.0
// normalize(x) -> like x, over `axes` together: (x - mean) / sqrt(variance + epsilon), or without `center`
// x / sqrt(mean of squares + epsilon). Scale and shift, where a model has them, are pointwise steps after it. With
// groups > 1, axis 1 is one of the axes and is cut into as many equal parts, each of which is normalised by itself.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/narrow.h"
#include "graph/op_kind.h"

namespace temper::ops {

struct Normalize {
  static constexpr std::string_view name = "normalize";
  static constexpr OpKind op_kind = OpKind::normalization;
  std::vector<int64_t> axes;  // sorted, 0 <= axis < rank
  double epsilon = 1e-5;
  bool center = true;
  int64_t groups = 1;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("axes", op.axes);
    f("epsilon", op.epsilon);
    f("center", op.center);
    f("groups", op.groups);
  }
  bool operator==(const Normalize&) const = default;
  // How the axes are walked: with groups, axis 1 stands there as two, the groups and the channels of each. `along`
  // tells the axes that are normalised over from those that lie between rows.
  struct Axis {
    size_t axis;
    int64_t size, step;  // elements of it, and how far apart they are along the axis
    bool along;
  };
  std::vector<Axis> walked(const Dims& dims) const;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  NarrowForm narrow_form(const NarrowNode&) const { return NarrowForm::stays_f32("its sums stay in fp32", true); }
  std::optional<std::vector<int64_t>> take_untransposed(std::span<const int64_t> perm, size_t inputs);
};

}  // namespace temper::ops
