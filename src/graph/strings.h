// SPDX-License-Identifier: Apache-2.0
// Tensors of strings: their elements are codes in the current table (base/string_table.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace temper {

class InferContext;

std::span<const uint64_t> codes_of(const Tensor& strings);
std::vector<std::string> strings_of(const Tensor& tensor);
// Throws Error{usage} where the shape has another number of elements.
Tensor tensor_of_strings(Dims dims, std::span<const std::string> values);

// Throws Error{bad_file} where an op's input has another type.
void expect_strings(const InferContext& context, size_t input);

}  // namespace temper
