// SPDX-License-Identifier: Apache-2.0
#include "base/file_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr size_t kPage = 4096, kHugePage = size_t(2) << 20;
constexpr size_t kPiece = size_t(4) << 20;      // of one thread at a time
constexpr size_t kSmallGap = size_t(64) << 10;  // cheaper to read than to begin anew

void read_on_all_threads(const OpenFile& file, size_t offset, std::span<std::byte> to) {
  parallel_for(int64_t(to.size()), int64_t(kPiece), [&](int64_t begin, int64_t end) {
    file.read(offset + size_t(begin), to.subspan(size_t(begin), size_t(end - begin)));
  });
}

}  // namespace

PrivateMemory::PrivateMemory(size_t bytes) : size_(bytes) {
  if (size_ == 0) return;
  // A huge page begins at a multiple of its size: what is in front of that, and behind the end, is given back.
  const size_t whole = round_up(size_, kPage), extra = size_ >= kHugePage ? kHugePage : 0;
  void* map = mmap(nullptr, whole + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) fail(ErrorKind::machine, "there is no memory for ", size_, " bytes: ", std::strerror(errno));
  auto* begin = static_cast<std::byte*>(map);
  data_ = begin;
  if (extra) {
    data_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(begin), kHugePage));
    const size_t front = size_t(data_ - begin), back = extra - front;
    if (front) munmap(begin, front);
    if (back) munmap(data_ + whole, back);
    madvise(data_, whole, MADV_HUGEPAGE);  // a wish: without it all is right, and slower
  }
}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (data_) munmap(data_, round_up(size_, kPage));
}

FileCopy::FileCopy(const OpenFile& file, std::vector<FileRange> ranges) {
  std::erase_if(ranges, [](const FileRange& range) { return range.bytes == 0; });
  std::sort(ranges.begin(), ranges.end(), [](const FileRange& a, const FileRange& b) { return a.offset < b.offset; });
  for (const FileRange& range : ranges) {
    if (ranges_.empty() || range.offset > ranges_.back().offset + ranges_.back().bytes + kSmallGap) {
      ranges_.push_back(range);
      continue;
    }
    FileRange& last = ranges_.back();
    last.bytes = std::max(last.bytes, range.offset + range.bytes - last.offset);
  }
  size_t end = 0;
  for (const FileRange& range : ranges_) {
    places_.push_back(round_up(end, kPage) + range.offset % kPage);
    end = places_.back() + range.bytes;
  }
  memory_ = PrivateMemory(end);
  for (size_t i = 0; i < ranges_.size(); ++i)
    read_on_all_threads(file, ranges_[i].offset, memory_.bytes().subspan(places_[i], ranges_[i].bytes));
  file.check_unchanged();
}

std::span<const std::byte> FileCopy::at(size_t offset, size_t bytes) const {
  if (bytes == 0) return {};
  const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                       [](size_t at, const FileRange& range) { return at < range.offset; });
  if (behind != ranges_.begin()) {
    const size_t i = size_t(behind - ranges_.begin()) - 1, into = offset - ranges_[i].offset;
    if (into < ranges_[i].bytes && bytes <= ranges_[i].bytes - into)
      return memory_.bytes().subspan(places_[i] + into, bytes);
  }
  throw std::logic_error("a part of a file that was not read");
}

}  // namespace temper
