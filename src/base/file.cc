// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace temper {

namespace {
std::string reason() { return std::strerror(errno); }

int open_regular(const std::string& path, struct stat& info) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::bad_file, "cannot open '", path, "': ", reason());
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    fail(ErrorKind::bad_file, "'", path, "' is not a regular file");
  }
  return fd;
}
}  // namespace

MappedFile::MappedFile(const std::string& path, bool populate) {
  struct stat info;
  int fd = open_regular(path, info);
  size_ = size_t(info.st_size);
  if (size_ > 0) {
    void* map = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | (populate ? MAP_POPULATE : 0), fd, 0);
    if (map == MAP_FAILED) {
      const std::string why = reason();
      close(fd);
      fail(ErrorKind::machine, "cannot map '", path, "': ", why);
    }
    data_ = static_cast<const std::byte*>(map);
  }
  close(fd);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::string& path, size_t limit) {
  struct stat info;
  int fd = open_regular(path, info);
  if (size_t(info.st_size) > limit) {
    close(fd);
    fail(ErrorKind::bad_file, "'", path, "' has ", info.st_size, " bytes; the limit is ", limit);
  }
  std::string content(size_t(info.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    ssize_t got = read(fd, content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += size_t(got);
  }
  close(fd);
  if (done != content.size()) fail(ErrorKind::bad_file, "'", path, "' could not be read to its end");
  return content;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  // Renaming onto a device or pipe would replace it.
  struct stat info;
  if (stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) fail(ErrorKind::machine, "cannot write '", path_, "': it is not a regular file");
  static std::atomic<int> counter{0};
  temporary_ = concat(path_, ".tmp.", int64_t(getpid()), ".", counter++);
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(ErrorKind::machine, "cannot write '", path_, "': ", reason());
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    close(fd_);
    unlink(temporary_.c_str());
  }
}

void AtomicFile::write(const void* data, size_t bytes) {
  auto* at = static_cast<const char*>(data);
  const size_t all = bytes;
  while (bytes > 0) {
    ssize_t done = ::write(fd_, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(ErrorKind::machine, "cannot write '", path_, "': ", reason(), "; what was there before is unchanged");
    at += done;
    bytes -= size_t(done);
  }
#if defined(__linux__)
  // The disk begins with what is written, so that the end waits for less. A hint: a failure surfaces at fsync.
  constexpr size_t kWorthBeginning = size_t(1) << 20;
  if (all >= kWorthBeginning) sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

void AtomicFile::commit() {
  if (fsync(fd_) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0)
    fail(ErrorKind::machine, "cannot write '", path_, "': ", reason(), "; what was there before is unchanged");
  close(fd_);
  fd_ = -1;
  if (int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

void check_can_write(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) fail(ErrorKind::machine, "cannot write '", path, "': it is a folder");
  const std::string folder = folder_of(path);
  if (!std::filesystem::is_directory(folder, error)) fail(ErrorKind::machine, "cannot write '", path, "': there is no folder '", folder, "'");
  if (access(folder.c_str(), W_OK | X_OK) != 0) fail(ErrorKind::machine, "cannot write '", path, "': ", reason());
}

bool file_exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string cache_folder() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (!(xdg && *xdg) && !(home && *home)) fail(ErrorKind::machine, "neither XDG_CACHE_HOME nor HOME is set: no place for a cache");
  std::string folder = xdg && *xdg ? concat(std::string_view(xdg), "/temper") : concat(std::string_view(home), "/.cache/temper");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorKind::machine, "cannot create '", folder, "': ", error.message());
  return folder;
}

FileLock::FileLock(const std::string& path) {
  const std::string name = path + ".lock";
  fd_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(ErrorKind::machine, "cannot open '", name, "': ", reason());
  while (flock(fd_, LOCK_EX) != 0)
    if (errno != EINTR) {
      const std::string why = reason();
      close(fd_);
      fail(ErrorKind::machine, "cannot lock '", name, "': ", why);
    }
}
FileLock::~FileLock() { close(fd_); }

}  // namespace temper
