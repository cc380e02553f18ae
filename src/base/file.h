// SPDX-License-Identifier: Apache-2.0
// Files: read through a memory map, written atomically, never over what is read or of another kind.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_kind.h"

namespace temper {

// A regular file that is open for reading. Directories, pipes and devices are refused by name.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path);  // throws Error{bad_file}
  OpenFile(int fd, std::string path);          // takes an open file over; `path` is for errors
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  size_t size() const { return size_; }  // when it was opened
  int descriptor() const { return fd_; }
  // Fills `to` with what stands from `offset` on. Throws Error{bad_file} where the file ends before that. Threads may
  // call it at the same time.
  void read(size_t offset, std::span<std::byte> to) const;
  // Throws Error{bad_file} where somebody has written to the file, or cut it, since it was opened.
  void check_unchanged() const;

 private:
  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
  int64_t written_s_ = 0, written_ns_ = 0;  // when it was written to last
};

// A read-only memory map of a regular file. Whoever cuts the file while it is mapped ends this process by a signal
// (SIGBUS), and whoever writes to it changes the bytes here: for files that are read once and at once. What is kept is
// copied (base/file_copy.h).
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

// A file to write, and what is written there: unless forced, nothing but a file of the same kind, or an empty one, is
// replaced. `option` is how the user gave it ("--json"), for messages.
struct Output {
  std::string path;
  FileKind kind;
  bool force = false;
  std::string option;
};

// For all that a command writes, before it does any work. `inputs` are files that it reads, and folders, of which it
// may read anything; files are the same where they are on the disk, whatever links lead there. An output without a path
// passes. Throws Error{usage}, naming the option, where an output
//   is an input, or another output (even if forced);
//   would replace a file of another kind, and is not forced;
//   is "-", a folder, a device, or in a folder that does not exist;
// and Error{machine} where it must not be written.
void check_outputs(const std::vector<std::string>& inputs, const std::vector<Output>& outputs);

// Writes to a temporary file in the same folder, then fsync, rename, fsync of the folder. On any failure the temporary
// file goes, an existing file stays as it was and an Error says why: those of check_outputs, and Error{machine}.
//
// Symbolic links are followed: what they lead to is replaced, and they stay. A replaced file's mode is kept, and its
// owner and group as far as this process may set them (what its group was allowed is not allowed to another group).
// Other hard links to it keep the old content. A file that must not be written is not replaced either.
//
// The temporary file has no name until it is whole, where the file system can do that. Otherwise, and for the moment
// before the rename, it is .temper-RANDOM.tmp, locked (flock) as long as its writer lives: every AtomicFile removes
// those in its folder whose writer is gone.
class AtomicFile {
 public:
  // `unnamed` false: as on a file system where every file has a name.
  explicit AtomicFile(Output output, bool unnamed = true);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail_here() const;
  void name_it(int flags, unsigned mode);

  Output output_;
  std::string target_;     // behind all links
  std::string temporary_;  // its name in the folder; empty: it has none yet
  int folder_ = -1, fd_ = -1;
};
void write_file_atomically(Output output, std::string_view content);
// Whatever is there is replaced.
inline void write_file_atomically(const std::string& path, std::string_view content) {
  write_file_atomically(Output{path, FileKind::other, true}, content);
}

bool file_exists(const std::string& path);
std::string folder_of(const std::string& path);  // "." where the path names no folder

// A cache is believed, so nobody else may write it. Empty where `path` belongs to this user or to root, and no one else
// may write to it (a group of the user's own number may); otherwise why not: "it belongs to user 1001".
std::string distrust(const std::string& path);
// read_file for caches: also Error{bad_file} where the file that was opened is not to be trusted.
std::string read_trusted_file(const std::string& path, size_t limit);
// Made where it is missing, for this user alone (0700), also the folders above. Throws Error{machine} where that cannot
// be, or where it is there and not to be trusted.
void make_private_folder(const std::string& path);
// $XDG_CACHE_HOME/temper or ~/.cache/temper, made on demand by make_private_folder, whose errors it has.
std::string cache_folder();

// Serialises processes (flock) on `path`.lock for the lifetime of the object. Where the lock file may only be read,
// that is enough. Throws Error{machine} where it cannot be had, also because another process holds it for `limit_s`
// seconds.
class FileLock {
 public:
  explicit FileLock(const std::string& path, double limit_s = 30);
  ~FileLock();
  FileLock(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace temper
