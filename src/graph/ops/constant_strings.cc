// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/constant_strings.h"

#include "base/string_table.h"

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

std::vector<std::string> strings_of(const Tensor& tensor) {
  const StringTable& table = current_strings();
  const uint64_t* codes = tensor.with_bits_as(DType::u64).data<uint64_t>();
  std::vector<std::string> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.emplace_back(table.at(codes[i]));
  return values;
}

Tensor tensor_of_strings(Dims dims, std::span<const std::string> values) {
  Tensor codes(DType::u64, std::move(dims));
  if (int64_t(values.size()) != codes.count())
    fail(ErrorKind::usage, values.size(), " strings for the shape ", codes.dims());
  StringTable& table = current_strings();
  for (size_t i = 0; i < values.size(); ++i) codes.data<uint64_t>()[i] = table.code_of(values[i]);
  return codes.with_bits_as(DType::string);
}

ConstantStrings constant_strings(const Tensor& tensor) { return {tensor.dims(), strings_of(tensor)}; }

}  // namespace temper::ops
