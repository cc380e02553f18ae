// SPDX-License-Identifier: Apache-2.0
#include "plan/place.h"

#include "plan/memory.h"

namespace temper {

std::optional<PlaceInWhole> place_in_whole(const TensorType& whole, const Dims& part, size_t axis, int64_t position,
                                           Layout layout, int64_t pitch) {
  const Dims dims = whole.dims();
  if (element_count(part) == 0) return {};
  const int64_t size = size_of(whole.dtype), block = block_of(layout);
  const bool spatial = axis >= 2 && layout != Layout::plain;
  // One piece: the axes outside of this one have size 1. Blocks of channels are whole, but for the last of the output.
  bool one_piece = pitch == 0 && !spatial;
  for (size_t a = 0; a < axis; ++a) one_piece &= dims[a] == 1;
  if (axis == 1 && layout == Layout::channels_last)
    for (size_t a = 2; a < dims.size(); ++a) one_piece &= dims[a] == 1;
  if (axis == 1) one_piece &= position % block == 0 && (part[1] % block == 0 || position + part[1] == dims[1]);
  Dims front = dims;
  front[axis] = position;
  if (const int64_t offset = layout_elements(front, layout) * size; one_piece && offset % kBufferAlignment == 0)
    return PlaceInWhole{offset, 0};
  // Rows in the rows of the output.
  if (axis != (layout == Layout::channels_last ? 1 : dims.size() - 1) || block > 1) return {};
  if (pitch == 0) pitch = dims[axis];
  if (position * size % kPartAlignment || pitch * size % kPartAlignment) return {};
  return PlaceInWhole{position * size, pitch};
}

}  // namespace temper
