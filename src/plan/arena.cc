// SPDX-License-Identifier: Apache-2.0
#include "plan/arena.h"

#include <cstdlib>
#include <utility>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"

namespace temper {

Arena::Arena(const Device& device, Source source) : queue_(open_queue(device)), source_(std::move(source)) {}

// The program may give its memory to others at once.
Arena::~Arena() {
  if (!queue_ || !source_ || !data_) return;
  try {
    queue_->wait();
  } catch (const Error&) {}  // NOLINT(bugprone-empty-catch): the device is lost, and nothing runs on it
}

void Arena::reserve(int64_t bytes, int64_t staging_bytes) {
  if (bytes > bytes_) {
    bytes = round_up<int64_t>(bytes, 4096);
    if (!queue_ && !source_) check_free_memory(bytes - bytes_, "activations need");
    if (queue_ || source_) {
      if (queue_) queue_->wait();
      data_.reset();  // before the larger one is asked for
      bytes_ = 0;
      ++moves_;  // also where there is none now
      data_ = allocate(bytes);
    } else {
      data_.reset(std::aligned_alloc(4096, size_t(bytes)), std::free);
      bytes_ = 0;
      ++moves_;
      if (!data_)
        fail(ErrorKind::machine, "out of memory: ", format_bytes(double(bytes)),
             " for activations; a smaller batch would fit");
    }
    bytes_ = bytes;
  }
  if (staging_bytes > staging_bytes_) {
    staging_ = queue_->allocate_host(staging_bytes);
    staging_bytes_ = staging_bytes;
    ++moves_;
  }
}

}  // namespace temper
