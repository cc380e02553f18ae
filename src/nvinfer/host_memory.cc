// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/host_memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"

namespace temper::nvinfer {

namespace {

constexpr int kPattern = 0xA5;  // of fresh memory: what was not written is not 0 by chance

struct Allocation {
  size_t size;
  bool pinned;
};
// Of the process. It is never destroyed: programs free in destructors of their own globals.
struct Live {
  std::mutex mutex;
  std::map<const std::byte*, Allocation> all;
};
Live& live() {
  static Live* const the_one = new Live;
  return *the_one;
}

}  // namespace

void* allocate_host(size_t size, bool pinned) {
  if (size > SIZE_MAX - 2 * kHostPad) return nullptr;
  constexpr size_t kLine = 256;  // as a GPU's allocator aligns
  auto* const memory =
      static_cast<std::byte*>(std::aligned_alloc(kLine, (size + kHostPad + kLine - 1) / kLine * kLine));
  if (!memory) return nullptr;
  std::memset(memory, kPattern, size + kHostPad);
  const std::lock_guard lock(live().mutex);
  live().all[memory] = {size, pinned};
  return memory;
}

std::optional<size_t> free_host(void* memory, bool pinned) {
  const auto* const at = static_cast<const std::byte*>(memory);
  size_t size = 0;
  {
    const std::lock_guard lock(live().mutex);
    const auto it = live().all.find(at);
    if (it == live().all.end() || it->second.pinned != pinned) return std::nullopt;
    size = it->second.size;
    live().all.erase(it);
  }
  size_t beyond = kHostPad;
  while (beyond && at[size + beyond - 1] == std::byte(kPattern)) --beyond;
  std::free(memory);
  return beyond;
}

bool is_host_device(const void* memory, size_t size) {
  const auto* const at = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(live().mutex);
  auto it = live().all.upper_bound(at);
  if (it == live().all.begin()) return false;
  --it;
  const size_t from = size_t(at - it->first), all = it->second.size;
  return !it->second.pinned && from < all && size <= all + kHostPad - from;
}

void check_host_device(const void* memory, size_t size, const std::string& what) {
  if (is_host_device(memory, size)) return;
  fail(ErrorKind::usage, "the address of '", what, "': ", int64_t(size),
       " bytes there are in no device memory of this process");
}

}  // namespace temper::nvinfer
