// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/checked.h"
#include "base/error.h"
#include "nvinfer/address.h"

namespace temper::nvinfer {

namespace {

constexpr int kPattern = 0xA5;  // of fresh memory: what was not written is not 0 by chance

// Of the process. It is never destroyed: programs free in destructors of their own globals.
struct Live {
  std::mutex mutex;
  std::map<const std::byte*, size_t> device, pinned;  // sizes
  // Addresses that are a device's alone. Behind `next` the next allocation is looked for, so that an address comes back
  // as late as it can.
  std::byte *begin = nullptr, *end = nullptr, *next = nullptr;

  bool reaches_device(const std::byte* at, size_t size) const {
    return at < end && (at >= begin || size > size_t(begin - at));
  }
};
Live& live() {
  static Live* const the_one = new Live;
  return *the_one;
}

// What an allocation takes of the addresses: whole pages, of whatever machine.
size_t room(size_t size) {
  constexpr size_t kPage = size_t(1) << 16;
  return round_up(size + kHostPad, kPage);
}

// As many addresses as a limit of the process lets it reserve; no memory is taken yet.
void reserve(Live& to) {
  for (size_t size = size_t(1) << 40; !to.begin && size >= size_t(1) << 30; size /= 4) {
    void* const at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) continue;
    to.begin = to.next = static_cast<std::byte*>(at);
    to.end = to.begin + size;
  }
}

// Null: there is no room.
std::byte* allocate_of_device(Live& of, size_t size) {
  const size_t taken = room(size);
  for (std::byte* at : {of.next, of.begin}) {
    for (auto it = of.device.lower_bound(at); it != of.device.end() && size_t(it->first - at) < taken; ++it)
      at += size_t(it->first - at) + room(it->second);
    if (size_t(of.end - at) < taken) continue;
    if (mprotect(at, taken, PROT_READ | PROT_WRITE)) return nullptr;
    of.next = at + taken;
    return at;
  }
  return nullptr;
}

// Gives its pages back: what reads or writes there from now on ends the process, as a host does that touches a GPU's.
void release_of_device(void* memory, size_t size) {
  static_cast<void>(
      mmap(memory, room(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
}

// Whether all these bytes lie in an allocation of the device, or in it and so many bytes behind it.
bool holds(const void* memory, size_t size, size_t behind) {
  const auto* const at = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(live().mutex);
  auto it = live().device.upper_bound(at);
  if (it == live().device.begin()) return false;
  --it;
  const size_t from = size_t(at - it->first), all = it->second;
  return from < std::max<size_t>(all, 1) && size <= all + behind - from;
}

void check_end(const void* at, CopyEnd end, size_t size, const char* what) {
  const bool reaches_device = [&] {
    const std::lock_guard lock(live().mutex);
    return live().reaches_device(static_cast<const std::byte*>(at), size);
  }();
  if (end != CopyEnd::device && !reaches_device) {
    check_mapped(reinterpret_cast<uintptr_t>(at), int64_t(size), what);
    return;
  }
  if (!holds(at, size, 0))
    fail(ErrorKind::usage, what, ": ", int64_t(size), " bytes there are in no device memory of this process");
}

}  // namespace

void* allocate_host(size_t size, bool pinned) {
  if (size > size_t(1) << 62) return nullptr;
  constexpr size_t kLine = 256;  // as a GPU's allocator aligns
  Live& to = live();
  const std::lock_guard lock(to.mutex);
  if (!pinned) reserve(to);
  auto* const memory =
      pinned ? static_cast<std::byte*>(std::aligned_alloc(kLine, round_up<size_t>(size + kHostPad, kLine)))
             : allocate_of_device(to, size);
  if (!memory) return nullptr;
  std::memset(memory, kPattern, size + kHostPad);
  (pinned ? to.pinned : to.device)[memory] = size;
  return memory;
}

std::optional<size_t> free_host(void* memory, bool pinned) {
  const auto* const at = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(live().mutex);
  auto& all = pinned ? live().pinned : live().device;
  const auto it = all.find(at);
  if (it == all.end()) return std::nullopt;
  const size_t size = it->second;
  all.erase(it);
  size_t beyond = kHostPad;
  while (beyond && at[size + beyond - 1] == std::byte(kPattern)) --beyond;
  if (pinned) std::free(memory);
  else release_of_device(memory, size);
  return beyond;
}

bool is_host_device(const void* memory, size_t size) { return holds(memory, size, kHostPad); }

void check_host_device(const void* memory, size_t size, const std::string& what) {
  if (is_host_device(memory, size)) return;
  fail(ErrorKind::usage, "the address of '", what, "': ", int64_t(size),
       " bytes there are in no device memory of this process");
}

void copy_host(void* to, CopyEnd to_end, const void* from, CopyEnd from_end, size_t size) {
  if (!size) return;
  check_end(to, to_end, size, "what is copied to");
  check_end(from, from_end, size, "what is copied from");
  std::memmove(to, from, size);
}

void set_host(void* memory, int value, size_t size) {
  if (!size) return;
  check_end(memory, CopyEnd::device, size, "what is set");
  std::memset(memory, value, size);
}

}  // namespace temper::nvinfer
