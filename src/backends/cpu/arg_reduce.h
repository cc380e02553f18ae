// SPDX-License-Identifier: Apache-2.0
// The position of the largest or smallest element of a row, for arg_reduce and sample.
#pragma once
#include <cstdint>

namespace temper {

// Of x[0..n), n > 0. NaN counts as the largest and the smallest. Of several the first, or with `last` the last.
int64_t arg_of_row(const float* x, int64_t n, bool largest, bool last);

}  // namespace temper
