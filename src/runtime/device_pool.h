// SPDX-License-Identifier: Apache-2.0
// Memory of a device for values that live between two plans of a session: taken and given back within a run, and kept
// for the next one, so that values of the same sizes lie where they lay before.
#pragma once
#include <memory>
#include <vector>

#include "plan/arena.h"

namespace temper {

class DevicePool {
 public:
  // In the arena's memory, which has a queue.
  explicit DevicePool(Arena& arena) : arena_(arena) {}
  DevicePool(const DevicePool&) = delete;
  // Waits: what a run that failed has put in may still be at work here.
  ~DevicePool() { arena_.queue()->is_lost(); }
  // Aligned to 256 bytes, with undefined content. What is given back may be taken again at once: all work is in the
  // queue's order.
  std::shared_ptr<void> take(int64_t bytes);
  // Gives the device back what the last runs had no use for. Nothing may be in the queue.
  void end_run();

 private:
  struct Block {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
    int64_t used = 0;  // the last run that took it
  };
  Arena& arena_;
  std::vector<Block> blocks_;  // those that are taken are held by others, too
  int64_t run_ = 0;
};

}  // namespace temper
