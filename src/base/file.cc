// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace temper {

namespace {
std::string reason() { return std::strerror(errno); }

int open_to_read(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused by require_regular.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::bad_file, "cannot open '", path, "': ", reason());
  return fd;
}

struct stat require_regular(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    fail(ErrorKind::bad_file, "'", path, "' is not a regular file");
  }
  return info;
}

std::string read_all(int fd, const struct stat& info, const std::string& path, size_t limit) {
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

std::string distrust(const struct stat& info) {
  if (info.st_uid != geteuid() && info.st_uid != 0) return concat("it belongs to user ", info.st_uid);
  if (info.st_mode & S_IWOTH) return "everybody may write to it";
  // Where every user has a group of his own, of his number, it is usually allowed what he is.
  if ((info.st_mode & S_IWGRP) && info.st_gid != info.st_uid) return concat("the group ", info.st_gid, " may write to it");
  return "";
}
}  // namespace

MappedFile::MappedFile(const std::string& path, bool populate) : MappedFile(open_to_read(path), path, populate) {}

MappedFile::MappedFile(int fd, const std::string& path, bool populate) {
  const struct stat info = require_regular(fd, path);
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
  const int fd = open_to_read(path);
  return read_all(fd, require_regular(fd, path), path, limit);
}

std::string distrust(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? distrust(info) : concat("it cannot be looked at: ", reason());
}

std::string read_trusted_file(const std::string& path, size_t limit) {
  const int fd = open_to_read(path);
  const struct stat info = require_regular(fd, path);
  if (const std::string why = distrust(info); !why.empty()) {
    close(fd);
    fail(ErrorKind::bad_file, "'", path, "' is not to be trusted: ", why);
  }
  return read_all(fd, info, path, limit);
}

void make_private_folder(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    if (const std::string above = folder_of(path); !std::filesystem::is_directory(above, error)) make_private_folder(above);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail(ErrorKind::machine, "cannot create '", path, "': ", reason());
  }
  if (!std::filesystem::is_directory(path, error)) fail(ErrorKind::machine, "cannot create '", path, "': it is there and no folder");
  if (const std::string why = distrust(path); !why.empty()) fail(ErrorKind::machine, "the folder '", path, "' is not to be trusted: ", why);
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
  make_private_folder(folder);
  return folder;
}

FileLock::FileLock(const std::string& path, double limit_s) {
  const std::string name = path + ".lock";
  fd_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0 && (errno == EACCES || errno == EROFS)) fd_ = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail(ErrorKind::machine, "cannot open '", name, "': ", reason());
  const auto begin = std::chrono::steady_clock::now();
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const bool waits = error == EWOULDBLOCK || error == EINTR;
    if (waits && std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(limit_s)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    close(fd_);
    if (waits) fail(ErrorKind::machine, "another process holds '", name, "' for more than ", limit_s, " s");
    fail(ErrorKind::machine, "cannot lock '", name, "': ", std::strerror(error));
  }
}
FileLock::~FileLock() { close(fd_); }

}  // namespace temper
