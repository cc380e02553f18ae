// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/pointwise.h"

#include "base/half.h"

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

DType accumulator_of(DType x, DType w) {
  if ((x == DType::i8 || x == DType::u8) && w == DType::i8) return DType::i32;
  if (x != w) fail(ErrorKind::bad_file, "inputs 0 and 1 differ in dtype: ", x, " and ", w);
  if (x == DType::u8) fail(ErrorKind::bad_file, "a product of u8 and u8; the second operand of 8-bit products is i8");
  return is_half(x) || x == DType::f8e4m3fn ? DType::f32 : x;
}

DType infer_epilogue(const Program& epilogue, DType accumulator, const Shape& shape, const InferContext& context,
                     size_t first) {
  std::vector<DType> dtypes{accumulator};
  for (size_t i = first; i < context.size(); ++i) {
    dtypes.push_back(context.type(i).dtype);
    if (broadcast_shapes(shape, context.type(i).shape) != shape)
      fail(ErrorKind::bad_file, "an epilogue input ", context.type(i), " does not broadcast to ", shape);
  }
  return epilogue.infer(dtypes);
}

Operations Pointwise::operations(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  return {0, computing_steps(program) * element_count(outputs[0])};
}

}  // namespace temper::ops
