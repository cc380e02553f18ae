// SPDX-License-Identifier: Apache-2.0
#include "plan/memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"

namespace temper {

int64_t place_buffers(std::vector<Lifetime>& buffers) {
  std::vector<size_t> order(buffers.size()), placed;
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  int64_t total = 0;
  for (size_t i : order) {
    Lifetime& buffer = buffers[i];
    const int64_t size = round_up<int64_t>(buffer.bytes, kBufferAlignment);
    // `placed` is sorted by offset: walk the gaps between neighbours that are alive at the same time.
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
    for (size_t j : placed) {
      const Lifetime& other = buffers[j];
      if (other.last < buffer.first || other.first > buffer.last) continue;
      const int64_t gap = other.offset - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, other.offset + round_up<int64_t>(other.bytes, kBufferAlignment));
    }
    buffer.offset = best >= 0 ? best : end;
    total = std::max(total, buffer.offset + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) { return buffers[a].offset < buffers[b].offset; }),
                  i);
  }
  return total;
}

}  // namespace temper
