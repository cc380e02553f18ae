// SPDX-License-Identifier: Apache-2.0
// How kernels whose results have the size that the data give find their places: each block counts what it has, the
// counts are summed up, and each block writes behind what those before it have.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

constexpr int64_t kScanTile = 2048;  // elements of a block of 256 threads; kTile in the texts

// `counts`, n words, become the sums of those before them; `total`, an i64, the sum of all.
Job scan_job(const Slot& counts, const Slot& total, int64_t n);

}  // namespace temper::cuda
