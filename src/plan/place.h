// SPDX-License-Identifier: Apache-2.0
// Computes where an input of a concat lies in the concat's output, and the rows of both.
#pragma once
#include <optional>

#include "backends/layout.h"

namespace temper {

// Elements of a row as layout.h has it: along the last axis in the plain layout, along channels in channels_last.
inline int64_t row_of(const Dims& dims, Layout layout) { return layout == Layout::plain ? dims.back() : dims[1]; }

struct PlaceInWhole {
  int64_t offset = 0;  // bytes
  int64_t pitch = 0;   // 0: it is one piece of memory that begins as buffers do; any kernel can write and read it
};
// For an input that begins at `position` along the axis; `pitch` is the output's. Nothing where it is neither one piece
// nor rows in the rows of the output, or lies across kPartAlignment.
std::optional<PlaceInWhole> place_in_whole(const TensorType& whole, const Dims& part, size_t axis, int64_t position,
                                           Layout layout, int64_t pitch);

}  // namespace temper
