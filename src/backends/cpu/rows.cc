// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rows.h"

#include <algorithm>

namespace temper {

std::optional<RowView> row_view(const Dims& dims, Layout layout, const std::vector<int64_t>& axes) {
  if (!layout_fits(dims, layout)) return std::nullopt;
  const bool along_channels = std::find(axes.begin(), axes.end(), 1) != axes.end();
  if (block_of(layout) > 1 && dims[1] % block_of(layout) != 0 && along_channels) return std::nullopt;
  Dims flags(dims.size(), 0);
  for (int64_t axis : axes) flags[size_t(axis)] = 1;
  const Dims sizes = physical_dims(dims, layout), chosen = physical_strides(flags, layout);
  RowView view;
  bool inside = false, behind = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_n = chosen[i] != 0;
    if (is_n && behind && sizes[i] != 1) return std::nullopt;
    if (is_n && !behind) inside = true, view.n *= sizes[i];
    else if (!is_n && !inside) view.outer *= sizes[i];
    else if (!is_n) {
      view.inner *= sizes[i];
      behind = behind || sizes[i] != 1;
    }
  }
  return view;
}

}  // namespace temper
