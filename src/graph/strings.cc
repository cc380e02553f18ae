// SPDX-License-Identifier: Apache-2.0
#include "graph/strings.h"

#include "base/string_table.h"
#include "graph/infer.h"

namespace temper {

std::span<const uint64_t> codes_of(const Tensor& strings) {
  return {strings.with_bits_as(DType::u64).data<uint64_t>(), size_t(strings.count())};
}

std::vector<std::string> strings_of(const Tensor& tensor) {
  const StringTable& table = current_strings();
  std::vector<std::string> values;
  for (uint64_t code : codes_of(tensor)) values.emplace_back(table.at(code));
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

void expect_strings(const InferContext& context, size_t input) {
  if (context.type(input).dtype != DType::string)
    fail(ErrorKind::bad_file, "input ", input, " has the type ", context.type(input), "; strings are needed");
}

}  // namespace temper
