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
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused by OpenFile.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::bad_file, "cannot open '", path, "': ", reason());
  return fd;
}

std::string read_all(const OpenFile& file, const std::string& path, size_t limit) {
  if (file.size() > limit) fail(ErrorKind::bad_file, "'", path, "' has ", file.size(), " bytes; the limit is ", limit);
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

std::string distrust(const struct stat& info) {
  if (info.st_uid != geteuid() && info.st_uid != 0) return concat("it belongs to user ", info.st_uid);
  if (info.st_mode & S_IWOTH) return "everybody may write to it";
  // Where every user has a group of his own, of his number, it is usually allowed what he is.
  if ((info.st_mode & S_IWGRP) && info.st_gid != info.st_uid)
    return concat("the group ", info.st_gid, " may write to it");
  return "";
}
}  // namespace

OpenFile::OpenFile(const std::string& path) : OpenFile(open_to_read(path), path) {}

OpenFile::OpenFile(int fd, std::string path) : path_(std::move(path)), fd_(fd) {
  struct stat info;
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd_);
    fail(ErrorKind::bad_file, "'", path_, "' is not a regular file");
  }
  size_ = size_t(info.st_size);
  written_s_ = info.st_mtim.tv_sec;
  written_ns_ = info.st_mtim.tv_nsec;
}

OpenFile::~OpenFile() { close(fd_); }

void OpenFile::read(size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(fd_, to.data(), to.size(), off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::bad_file, "cannot read '", path_, "': ", reason());
    if (got == 0) fail(ErrorKind::bad_file, "'", path_, "' could not be read to its end: it was cut meanwhile");
    offset += size_t(got);
    to = to.subspan(size_t(got));
  }
}

void OpenFile::check_unchanged() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) fail(ErrorKind::bad_file, "cannot read '", path_, "': ", reason());
  // Not the time of the inode's last change: a rename onto the file, which is how a file should be replaced, changes
  // that.
  if (size_t(info.st_size) != size_ || info.st_mtim.tv_sec != written_s_ || info.st_mtim.tv_nsec != written_ns_)
    fail(ErrorKind::bad_file, "'", path_,
         "' was changed while it was read; wait until its writer is done, or write a new file and rename it");
}

MappedFile::MappedFile(const std::string& path, bool populate) {
  const OpenFile file(path);
  size_ = file.size();
  if (size_ == 0) return;
  void* map = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | (populate ? MAP_POPULATE : 0), file.descriptor(), 0);
  if (map == MAP_FAILED) fail(ErrorKind::machine, "cannot map '", path, "': ", reason());
  data_ = static_cast<const std::byte*>(map);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::string& path, size_t limit) { return read_all(OpenFile(path), path, limit); }

std::string distrust(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? distrust(info) : concat("it cannot be looked at: ", reason());
}

std::string read_trusted_file(const std::string& path, size_t limit) {
  const OpenFile file(path);
  struct stat info;
  if (fstat(file.descriptor(), &info) != 0) fail(ErrorKind::bad_file, "cannot read '", path, "': ", reason());
  if (const std::string why = distrust(info); !why.empty())
    fail(ErrorKind::bad_file, "'", path, "' is not to be trusted: ", why);
  return read_all(file, path, limit);
}

void make_private_folder(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    if (const std::string above = folder_of(path); !std::filesystem::is_directory(above, error))
      make_private_folder(above);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      fail(ErrorKind::machine, "cannot create '", path, "': ", reason());
  }
  if (!std::filesystem::is_directory(path, error))
    fail(ErrorKind::machine, "cannot create '", path, "': it is there and no folder");
  if (const std::string why = distrust(path); !why.empty())
    fail(ErrorKind::machine, "the folder '", path, "' is not to be trusted: ", why);
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
  if (!(xdg && *xdg) && !(home && *home))
    fail(ErrorKind::machine, "neither XDG_CACHE_HOME nor HOME is set: no place for a cache");
  std::string folder =
      xdg && *xdg ? concat(std::string_view(xdg), "/temper") : concat(std::string_view(home), "/.cache/temper");
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
