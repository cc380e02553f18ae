// SPDX-License-Identifier: Apache-2.0
// Loops over a tensor in memory order, for any layout: sizes of the physical axes and, for each operand, the stride in
// elements along each of them (0 where it broadcasts).
#pragma once
#include "backends/layout.h"

namespace temper {

struct Axes {
  Dims sizes;                 // outermost first
  std::vector<Dims> strides;  // [operand][axis]
};

// Physical sizes of a tensor of `dims`. Blocked layouts: [N, C/block, spatial..., block].
Dims physical_dims(const Dims& dims, Layout layout);
// Strides of the logical axes of a tensor [.., rank of dims] seen along the physical axes of `layout`. Channels must
// fill their blocks.
Dims physical_strides(const Dims& logical_strides, Layout layout);
// Drops axes of size 1 and merges neighbours that every operand walks as one.
void merge_axes(Axes& axes);

}  // namespace temper
