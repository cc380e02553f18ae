// SPDX-License-Identifier: Apache-2.0
// The memory that a session works in, of its device. It grows to the largest plan that the session runs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "backends/backend.h"

namespace temper {

// Where the device has memory of its own, this is also its order of work and memory of the host to copy from and to.
class Arena {
 public:
  // Memory of a program's own, of the device's kind, aligned to 256 bytes at least; its owner gives it back. Throws
  // where there is none.
  using Source = std::function<std::shared_ptr<void>(int64_t bytes)>;
  explicit Arena(const Device& device, Source source = nullptr);
  Arena(const Arena&) = delete;
  ~Arena();
  void reserve(int64_t bytes, int64_t staging_bytes = 0);  // throws Error{machine}
  // More of it, of a device with memory of its own, beside data(); given back before the arena goes.
  std::shared_ptr<void> allocate(int64_t bytes) { return source_ ? source_(bytes) : queue_->allocate(bytes); }
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }  // page-aligned, but for a Source's
  std::byte* staging() const { return static_cast<std::byte*>(staging_.get()); }
  int64_t bytes() const { return bytes_; }
  Queue* queue() const { return queue_.get(); }  // null: the device works on the host's memory
  int moves() const { return moves_; }           // raised when data() changes

 private:
  std::unique_ptr<Queue> queue_;
  Source source_;  // null: the device's
  std::shared_ptr<void> data_, staging_;
  int64_t bytes_ = 0, staging_bytes_ = 0;
  int moves_ = 0;
};

}  // namespace temper
