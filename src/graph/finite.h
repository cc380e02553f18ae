// SPDX-License-Identifier: Apache-2.0
// Checks that all numbers of a tensor are finite, quickly enough for all weights of a network.
#pragma once
#include "graph/tensor.h"

namespace temper {

bool all_finite(const Tensor& tensor);  // of f32: neither NaN nor infinity; by all threads

}  // namespace temper
