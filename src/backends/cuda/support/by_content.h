// SPDX-License-Identifier: Apache-2.0
// A weak cache by content: equal bytes share one object for as long as somebody holds it.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/hash.h"

namespace temper::cuda {

// Weak cache by content: equal bytes share one object while anyone holds it.
template <class T>
class ByContent {
 public:
  // make() gives the shared_ptr where nobody holds one; others wait for it meanwhile.
  template <class Make>
  std::shared_ptr<const T> get(std::span<const std::byte> bytes, Make&& make) {
    const std::pair<uint64_t, size_t> key{xxh3(bytes.data(), bytes.size()), bytes.size()};
    const std::lock_guard lock(mutex_);
    if (const auto it = known_.find(key); it != known_.end())
      if (auto known = it->second.lock()) return known;
    std::shared_ptr<const T> object = make();
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    known_[key] = object;
    return object;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<uint64_t, size_t>, std::weak_ptr<const T>> known_;
};

}  // namespace temper::cuda
