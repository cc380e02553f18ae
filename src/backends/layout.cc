// SPDX-License-Identifier: Apache-2.0
#include "backends/layout.h"

#include "base/checked.h"

namespace temper {

int64_t layout_elements(const Dims& dims, Layout layout) {
  if (block_of(layout) == 1) return element_count(dims);
  Dims padded = dims;
  padded[1] = round_up(padded[1], block_of(layout));
  return element_count(padded);
}

static int64_t row_of(const Dims& dims, Layout layout) {
  return layout == Layout::channels_last ? dims[1] : dims.back();
}

bool pitch_fits(const Dims& dims, Layout layout, int64_t pitch) {
  return pitch == 0 || (block_of(layout) == 1 && layout_fits(dims, layout) && !dims.empty() &&
                        element_count(dims) > 0 && pitch >= row_of(dims, layout));
}

int64_t layout_bytes(DType dtype, const Dims& dims, Layout layout, int64_t pitch) {
  if (pitch == 0) return layout_bytes(dtype, dims, layout);
  const int64_t row = row_of(dims, layout), rows = element_count(dims) / row;
  return checked_mul(checked_add(checked_mul(rows - 1, pitch), row), size_of(dtype));
}

bool same_memory(const Dims& dims, Layout a, Layout b) {
  if (a == b) return true;
  if (!layout_fits(dims, a) || !layout_fits(dims, b)) return false;
  int64_t spatial = 1;
  for (size_t i = 2; i < dims.size(); ++i) spatial *= dims[i];
  const int64_t block = std::max(block_of(a), block_of(b));
  if (dims[1] % block != 0) return false;
  if (spatial == 1) return true;        // only channels are left to order
  if (dims[1] == 1) return block == 1;  // plain and channels_last
  // One block of channels is channels_last.
  auto linear = [&](Layout l) { return l == Layout::channels_last || (block_of(l) > 1 && block_of(l) == dims[1]); };
  return linear(a) && linear(b);
}

}  // namespace temper
