// SPDX-License-Identifier: Apache-2.0
#include "backends/axes.h"

#include "base/checked.h"

namespace temper {

Dims physical_dims(const Dims& dims, Layout layout) {
  if (layout == Layout::plain) return dims;
  Dims out{dims[0]};
  const int64_t block = block_of(layout);
  if (block > 1) out.push_back(round_up(dims[1], block) / block);
  out.insert(out.end(), dims.begin() + 2, dims.end());
  out.push_back(block > 1 ? block : dims[1]);
  return out;
}

Dims physical_strides(const Dims& strides, Layout layout) {
  if (layout == Layout::plain) return strides;
  Dims out{strides[0]};
  if (block_of(layout) > 1) out.push_back(strides[1] * block_of(layout));
  out.insert(out.end(), strides.begin() + 2, strides.end());
  out.push_back(strides[1]);
  return out;
}

void merge_axes(Axes& axes) {
  Dims sizes;
  std::vector<Dims> strides(axes.strides.size());
  for (size_t i = 0; i < axes.sizes.size(); ++i) {
    if (axes.sizes[i] == 1) continue;
    bool joins = !sizes.empty();
    for (size_t o = 0; o < strides.size() && joins; ++o)
      joins = strides[o].back() == axes.strides[o][i] * axes.sizes[i];
    if (joins) sizes.back() *= axes.sizes[i];
    else sizes.push_back(axes.sizes[i]);
    for (size_t o = 0; o < strides.size(); ++o) {
      if (joins) strides[o].back() = axes.strides[o][i];
      else strides[o].push_back(axes.strides[o][i]);
    }
  }
  axes.sizes = std::move(sizes);
  axes.strides = std::move(strides);
}

}  // namespace temper
