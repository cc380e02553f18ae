// SPDX-License-Identifier: Apache-2.0
// Counts the arithmetic of an op on concrete types, for people who compare a kernel's time with what a machine could
// do.
#pragma once
#include <cstdint>

#include "graph/program.h"
#include "graph/tensor.h"

namespace temper {

struct Operations {
  // Operations of convolutions and matrix products: two for each product and its sum, elements of the padding among
  // them. They run at the rate of the dtype of their operands.
  int64_t products = 0;
  // One for each step of a program and element, and as many as a window or a reduction has elements.
  int64_t others = 0;
  int64_t all() const { return products + others; }
};

// The cost of the reference of a convolution or matrix product: each element of the output reads as many elements as
// its row of the second operand has.
double contraction_cost(const TensorType& second, const TensorType& output);

// Steps that compute: constants and casts are free, or nearly so.
int64_t computing_steps(const Program& program);

}  // namespace temper
