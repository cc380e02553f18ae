// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_pool.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace temper {

std::shared_ptr<void> DevicePool::take(int64_t bytes) {
  // An eighth more at most, so that sizes that data decide take the same memory where they differ by little.
  const auto grain = std::max<int64_t>(256, int64_t(std::bit_floor(uint64_t(std::max<int64_t>(bytes, 1)))) / 8);
  bytes = round_up(std::max<int64_t>(bytes, 1), grain);
  Block* best = nullptr;
  for (Block& block : blocks_)
    if (block.memory.use_count() == 1 && block.bytes >= bytes && block.bytes <= 2 * bytes &&
        (!best || block.bytes < best->bytes))
      best = &block;
  if (!best) best = &blocks_.emplace_back(Block{arena_.allocate(bytes), bytes, 0});
  best->used = run_;
  return best->memory;
}

void DevicePool::end_run() {
  constexpr int64_t kRuns = 8;
  std::erase_if(blocks_,
                [&](const Block& block) { return block.memory.use_count() == 1 && block.used + kRuns <= run_; });
  ++run_;
}

}  // namespace temper
