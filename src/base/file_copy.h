// SPDX-License-Identifier: Apache-2.0
// A copy of a file in memory that no one else can change.
#pragma once
#include <vector>

#include "base/file.h"

namespace temper {

// Memory of no file, on huge pages where it is large.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  explicit PrivateMemory(size_t bytes);  // zeros; throws Error{machine}
  PrivateMemory(PrivateMemory&& other) noexcept { *this = std::move(other); }
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory();
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

struct FileRange {
  size_t offset = 0, bytes = 0;
};

// A file's content as it was when it was read, for what is kept: whoever cuts, replaces or rewrites the file afterwards
// changes nothing here, and no access ends in a signal, as it may in a memory map. Throws Error{bad_file} where the
// file is changed while it is read. Large files are read on all threads.
class FileCopy {
 public:
  explicit FileCopy(const OpenFile& file) : FileCopy(file, {{0, file.size()}}) {}
  // Only these ranges, and small gaps between them; all of them lie in the file. What several ranges share is read
  // once.
  FileCopy(const OpenFile& file, std::vector<FileRange> ranges);
  // The bytes of a range, or a part of one, by its place in the file. Offsets keep their alignment, up to a page's.
  std::span<const std::byte> at(size_t offset, size_t bytes) const;
  // All that was read, in the order of the file.
  const std::vector<FileRange>& ranges() const { return ranges_; }

 private:
  PrivateMemory memory_;
  std::vector<FileRange> ranges_;  // joined
  std::vector<size_t> places_;     // of each, in memory_
};

}  // namespace temper
