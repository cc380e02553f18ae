// SPDX-License-Identifier: Apache-2.0
// Shared by recipes whose kernels work along rows: reductions, softmax, normalisation (rows.cuh).
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// One launch over x in `layout`, whose rows run along the (sorted) logical `axes`; no launch if x has no rows.
// `out_strides` are the strides of the output along x's logical axes, in elements, and 0 along reduced axes. `entry` is
// the name of the kernel and of its file. `constants` is text that comes before the kernel's own.
Recipe::Work rows_work(const TensorType& x, Layout layout, const std::vector<int64_t>& axes, const Dims& out_strides,
                       DType output, std::string_view entry, const std::string& constants, double number);

}  // namespace temper::cuda
