// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/pointwise.h"

namespace temper::ops {

std::vector<TensorType> Pointwise::infer(const InferContext& context) const {
  std::vector<DType> dtypes;
  Shape shape;
  for (size_t i = 0; i < context.size(); ++i) {
    dtypes.push_back(context.type(i).dtype);
    shape = i == 0 ? context.type(i).shape : broadcast_shapes(shape, context.type(i).shape);
  }
  return {{program.infer(dtypes), shape}};
}

std::vector<Tensor> Pointwise::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  return {run_program(program, inputs, outputs[0].dims())};
}

DType infer_epilogue(const Program& epilogue, DType accumulator, const Shape& shape, const InferContext& context, size_t first) {
  std::vector<DType> dtypes{accumulator};
  for (size_t i = first; i < context.size(); ++i) {
    dtypes.push_back(context.type(i).dtype);
    if (broadcast_shapes(shape, context.type(i).shape) != shape)
      fail(ErrorKind::bad_file, "an epilogue input ", context.type(i), " does not broadcast to ", shape);
  }
  return epilogue.infer(dtypes);
}

}  // namespace temper::ops
