// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/shape.h"

namespace temper::ops {

std::vector<TensorType> ShapeOf::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  if (start < 0 || start > end || end > context.type(0).rank())
    fail(ErrorKind::bad_file, "axes ", start, " to ", end, " of ", context.type(0));
  return {{DType::i64, {Dim(end - start)}}};
}

std::vector<Tensor> ShapeOf::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  const Dims& dims = inputs[0].dims();
  return {Tensor::of<int64_t>({end - start}, Dims(dims.begin() + start, dims.begin() + end))};
}

}  // namespace temper::ops
