// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/picture.h"

namespace temper {

Picture picture_of(const Problem& problem, int64_t panel) {
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  Picture picture;
  if (!problem.op.is<ops::Conv>()) {
    picture.columns = y.back();
    picture.channels = x.back();
    picture.width.in = picture.width.out = element_count(y) / y.back();
    return picture;
  }
  const auto& op = problem.op.get<ops::Conv>();
  const Dims w = problem.inputs[1].dims();
  const ConvGeometry geometry = conv_geometry(problem);
  picture.columns = y[1];
  picture.images = x[0], picture.channels = x[1];
  for (int64_t shared = 1; shared <= op.group && shared * picture.columns <= panel * op.group; ++shared)
    if (op.group % shared == 0) picture.shared = shared;
  picture.groups = op.group / picture.shared;
  const auto axis = [&](size_t i) {
    return PictureAxis{x[i + 2], y[i + 2], w[i + 2], op.strides[i], op.dilations[i], geometry.begin[i]};
  };
  if (x.size() == 4) picture.height = axis(0);
  picture.width = axis(x.size() - 3);
  return picture;
}

}  // namespace temper
