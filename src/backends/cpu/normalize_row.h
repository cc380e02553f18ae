// SPDX-License-Identifier: Apache-2.0
// The normalisation of one row, for normalize and fused_normalize.
#pragma once
#include <cstdint>

namespace temper {

// y[0..n) = (x - mean) / sqrt(variance + epsilon), or without `center` x / sqrt(mean of squares + epsilon); y may be x.
void normalize_row(const float* x, float* y, int64_t n, float epsilon, bool center);

}  // namespace temper
