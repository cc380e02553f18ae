// SPDX-License-Identifier: Apache-2.0
// Files: read through a memory map, written atomically.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace temper {

// A read-only memory map of a regular file. Directories, pipes and devices are refused by name.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path, bool populate = false);  // throws Error{bad_file}
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

std::string read_file(const std::string& path, size_t limit = size_t(1) << 30);  // throws Error{bad_file}

// Writes to a temporary file in the same folder, then fsync, rename, fsync of the folder. On any failure the temporary
// file is removed, an existing file stays as it was and Error{machine} names the cause.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  void write(const void* data, size_t bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
};
void write_file_atomically(const std::string& path, std::string_view content);
// For what takes long before it writes: Error{machine} where the folder of `path` is not there or not writable, or `path`
// is a folder itself. An empty path passes.
void check_can_write(const std::string& path);

bool file_exists(const std::string& path);
std::string folder_of(const std::string& path);  // "." where the path names no folder
std::string cache_folder();                       // $XDG_CACHE_HOME/temper or ~/.cache/temper, created on demand

// Serialises processes (flock) on `path`.lock for the lifetime of the object.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace temper
