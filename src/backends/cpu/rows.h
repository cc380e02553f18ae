// SPDX-License-Identifier: Apache-2.0
// Work along rows, shared by softmax, normalize and arg_reduce: the tensor is seen as [outer, n, inner] in memory
// order, the op running along n. inner = 1: rows. Otherwise columns, taken a few at a time.
#pragma once
#include <optional>

#include "backends/axes.h"

namespace temper {

struct RowView {
  int64_t outer = 1, n = 1, inner = 1;
};

// Nothing where the axes (sorted) do not lie side by side in this layout, or run along channels with padding. Other
// padding channels are computed on like the rest: the kernel zeroes them in the end.
std::optional<RowView> row_view(const Dims& dims, Layout layout, const std::vector<int64_t>& axes);

}  // namespace temper
