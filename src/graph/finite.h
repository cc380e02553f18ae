// SPDX-License-Identifier: Apache-2.0
// Whether all numbers of a tensor are finite: asked of a network's weights, which are many.
#pragma once
#include "graph/tensor.h"

namespace temper {

bool all_finite(const Tensor& tensor);  // of f32: neither NaN nor infinity; by all threads

}  // namespace temper
