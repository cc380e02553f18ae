// SPDX-License-Identifier: Apache-2.0
// All ops that only move elements are copies between two arrangements of strides.
#pragma once
#include "backends/cuda/recipe.h"

namespace temper::cuda {

// `sizes` of the axes that are walked, outermost first, and for each its strides in elements in the source and in the
// destination; `from`, `to`: the first element. No two positions are the same element of the destination. Negative and
// zero strides are fine in the source. Nothing where a size is 0.
std::vector<Job> copy_jobs(int64_t element_bytes, const Dims& sizes, const Dims& in_strides, const Dims& out_strides,
                           int64_t from, int64_t to, Slot in, Slot out);

// From one layout of a tensor to another.
std::vector<Job> reorder_jobs(const TensorType& type, Layout from, Layout to);

// Recipe::takes_parts of recipes that only copy by strides, and so take any strided view.
inline bool takes_all_parts(const Problem&, const Config&) { return true; }

}  // namespace temper::cuda
