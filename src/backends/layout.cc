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

bool same_memory(const Dims& dims, Layout a, Layout b) {
  if (a == b) return true;
  if (!layout_fits(dims, a) || !layout_fits(dims, b)) return false;
  int64_t spatial = 1;
  for (size_t i = 2; i < dims.size(); ++i) spatial *= dims[i];
  const int64_t block = std::max(block_of(a), block_of(b));
  if (dims[1] % block != 0) return false;
  if (spatial == 1) return true;            // only channels are left to order
  if (dims[1] == 1) return block == 1;      // plain and channels_last
  // One block of channels is channels_last.
  auto linear = [&](Layout l) { return l == Layout::channels_last || (block_of(l) > 1 && block_of(l) == dims[1]); };
  return linear(a) && linear(b);
}

}  // namespace temper
