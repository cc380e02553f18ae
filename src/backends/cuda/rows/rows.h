// SPDX-License-Identifier: Apache-2.0
// What the recipes share whose kernels work along rows (rows.cuh).
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// One launch over x in `layout`: rows run along the (sorted) logical `axes`. `out_strides`: of the output along x's
// logical axes, in elements (0 along those that are reduced). `constants`: text before the kernel's own; `file`:
// the kernel, whose entry has the file's name. Nothing where x has no rows.
Recipe::Work rows_work(const TensorType& x, Layout layout, const std::vector<int64_t>& axes, const Dims& out_strides,
                       DType output, std::string_view entry, const std::string& constants, double number);

}  // namespace temper::cuda
