// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/constant_strings.h"

#include "graph/strings.h"

namespace temper::ops {

std::vector<TensorType> ConstantStrings::infer(const InferContext& context) const {
  context.expect_inputs(0, 0);
  if (int64_t(values.size()) != element_count(shape))
    fail(ErrorKind::bad_file, values.size(), " strings for the shape ", shape);
  return {type_of(DType::string, shape)};
}

std::vector<Tensor> ConstantStrings::reference(std::span<const Tensor>, std::span<const TensorType>) const {
  return {tensor_of_strings(shape, values)};
}

ConstantStrings constant_strings(const Tensor& tensor) { return {tensor.dims(), strings_of(tensor)}; }

}  // namespace temper::ops
