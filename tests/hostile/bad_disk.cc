// SPDX-License-Identifier: Apache-2.0
// Loaded in front of libc: a disk that fails. Calls that make, write, flush, link or rename regular files are counted;
// number TEMPER_TEST_DISK_CALL, and with TEMPER_TEST_DISK_STAYS each one behind it, fails with the error number
// TEMPER_TEST_DISK_ERROR. Without such a number each write takes half of what it is given. The file
// TEMPER_TEST_DISK_MARK is made when the first fault comes.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace {

int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

// Whether this call fails; errno is then set.
bool fails() {
  static const int first = number("TEMPER_TEST_DISK_CALL"), error = number("TEMPER_TEST_DISK_ERROR");
  static const bool stays = number("TEMPER_TEST_DISK_STAYS") != 0;
  static std::atomic<int> calls{0};
  const int call = ++calls;
  if (error == 0 || call < first || (call > first && !stays)) return false;
  if (const char* mark = std::getenv("TEMPER_TEST_DISK_MARK"))
    close(int(syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600)));
  errno = error;
  return true;
}

bool is_regular(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

template <class F>
F next(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next(&write, "write");
  if (!is_regular(fd)) return real(fd, data, bytes);
  if (fails()) return -1;
  static const bool halves = number("TEMPER_TEST_DISK_ERROR") == 0;
  return real(fd, data, halves && bytes > 1 ? bytes / 2 : bytes);
}

extern "C" int fsync(int fd) {
  static const auto real = next(&fsync, "fsync");
  return fails() ? -1 : real(fd);
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static const auto real = next(&renameat, "renameat");
  return fails() ? -1 : real(from_folder, from, to_folder, to);
}

extern "C" int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  static const auto real = next(&linkat, "linkat");
  return fails() ? -1 : real(from_folder, from, to_folder, to, flags);
}

extern "C" int openat(int folder, const char* path, int flags, ...) {
  static const auto real = next(&openat, "openat");
  const bool makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
  mode_t mode = 0;
  if (makes) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (fails()) return -1;
  }
  return real(folder, path, flags, mode);
}
