// SPDX-License-Identifier: Apache-2.0
// Bytes that start on a cache line, as vector loads and oneDNN want them.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

namespace temper {

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T* at, size_t) { ::operator delete(at, std::align_val_t(64)); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};

using AlignedBytes = std::vector<std::byte, CacheLineAllocator<std::byte>>;

}  // namespace temper
