// SPDX-License-Identifier: Apache-2.0
// Writes files atomically, and says what may be replaced.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/hash.h"

namespace temper {

namespace {

constexpr std::string_view kTemporary = ".temper-", kTemporaryEnd = ".tmp";
constexpr size_t kRandomDigits = 16;  // of hex()

// Wrong paths are the user's; what the disk or the system refuses is the machine's.
ErrorKind kind_of(int error) {
  const bool wrong_path =
      error == ENOENT || error == ENOTDIR || error == EISDIR || error == ELOOP || error == ENAMETOOLONG;
  return wrong_path ? ErrorKind::usage : ErrorKind::machine;
}

std::string shown(const Output& output) {
  return concat(output.option, output.option.empty() ? "'" : " '", output.path, "'");
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What is written in the end: behind all symbolic links, also where the last of them leads to nothing yet.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;
  std::string at = path;
  for (int i = 0; i < kMostLinks; ++i) {
    char to[PATH_MAX];
    const ssize_t length = readlink(at.c_str(), to, sizeof to);
    if (length < 0 || size_t(length) == sizeof to) return at;
    const std::string next(to, size_t(length));
    at = next.starts_with('/') ? next : concat(folder_of(at), '/', next);
  }
  fail(ErrorKind::usage, "cannot write '", path, "': ", std::strerror(ELOOP));
}

struct Place {  // where a file is, or would be
  dev_t device = 0;
  ino_t number = 0;
  std::string name;  // in the folder of that number; empty: the file itself
  bool operator==(const Place&) const = default;
};
std::optional<Place> place_of(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return Place{info.st_dev, info.st_ino, ""};
}

void check_writable(const Output& output, const std::string& target, const std::string& folder, bool exists) {
  std::error_code error;
  const auto usage = [&](const auto&... why) { fail(ErrorKind::usage, "cannot write ", shown(output), ": ", why...); };
  if (std::filesystem::is_directory(target, error)) usage("it is a folder");
  if (name_of(target).empty()) usage("it ends with a '/', as the name of a folder");
  if (!std::filesystem::is_directory(folder, error)) usage("there is no folder '", folder, "'");
  // Renaming onto a device or pipe would replace it.
  if (exists && !std::filesystem::is_regular_file(target, error)) usage("it is not a regular file");
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ErrorKind::machine, "cannot write ", shown(output),
         ": its folder must not be written to: ", std::strerror(errno));
  if (exists && access(target.c_str(), W_OK) != 0)
    fail(ErrorKind::machine, "cannot write ", shown(output), ": ", std::strerror(errno));
}

// All but what is about other files. A cache that cannot be written is no reason to stop: whoever writes it says so.
void check_one(const Output& output) {
  if (output.path == "-")
    fail(ErrorKind::usage, shown(output),
         " names no file: standard output is not written to there; ./- is a file of that name");
  const std::string target = behind_links(output.path), folder = folder_of(target);
  std::error_code error;
  const bool exists = std::filesystem::exists(target, error), is_cache = output.kind == FileKind::timings;
  if (!is_cache) check_writable(output, target, folder, exists);
  if (!exists || output.force) return;
  if (is_cache && access(target.c_str(), R_OK) != 0) return;
  const FileKind there = kind_of_file(target);
  // A model that Temper wrote may be written again; that of another program is the user's.
  if (there == FileKind::nothing || there == output.kind) return;
  if (is_cache) fail(ErrorKind::usage, shown(output), " is ", words_of(there), ", no timing cache; name another file");
  fail(ErrorKind::usage, shown(output), " is ", words_of(there), ", which ", words_of(output.kind),
       " would replace; name another file to write, or force it (--force; force=True in Python)");
}

void remove_if_abandoned(int folder, const char* name) {
  const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  // Its writer holds the lock as long as it lives. Failing is no harm: it is tried again at the next write.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
  close(fd);
}

void remove_abandoned(int folder) {
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* list = fd < 0 ? nullptr : fdopendir(fd);
  if (!list) {
    if (fd >= 0) close(fd);
    return;
  }
  while (const dirent* entry = readdir(list)) {
    const std::string_view name = entry->d_name;
    if (name.size() == kTemporary.size() + kRandomDigits + kTemporaryEnd.size() && name.starts_with(kTemporary) &&
        name.ends_with(kTemporaryEnd))
      remove_if_abandoned(folder, entry->d_name);
  }
  closedir(list);
}

std::string random_name() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != ssize_t(sizeof number))
    fail(ErrorKind::machine, "no random numbers: ", std::strerror(errno));
  return concat(kTemporary, hex(number), kTemporaryEnd);
}

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

void check_outputs(const std::vector<std::string>& inputs, const std::vector<Output>& outputs) {
  std::vector<std::pair<const Output*, Place>> there, all;
  for (const Output& output : outputs) {
    if (output.path.empty() || output.path == "-") continue;
    const std::string target = behind_links(output.path);
    auto place = place_of(target);
    if (place) there.emplace_back(&output, *place);
    else if (place = place_of(folder_of(target)); place) place->name = name_of(target);
    if (!place) continue;  // check_one says that there is no such folder
    for (const auto& [other, same] : all)
      if (same == *place)
        fail(ErrorKind::usage, shown(*other), " and ", shown(output), " are one file; name two to write");
    all.emplace_back(&output, *place);
  }
  // What was written into a folder of data before is not data.
  const auto refuse_input = [&](const std::string& input, bool of_folder) {
    const auto place = place_of(input);
    for (const auto& [output, same] : there)
      if (place == same && !(of_folder && kind_of_file(input) == output->kind))
        fail(ErrorKind::usage, shown(*output), " is one of the files to read",
             output->path == input ? "" : concat(" ('", input, "')"), "; name another one to write");
  };
  for (const std::string& input : inputs) {
    if (there.empty()) break;
    refuse_input(input, false);
    namespace fs = std::filesystem;
    std::error_code error;
    constexpr auto how =
        fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink;
    if (fs::is_directory(input, error))
      for (fs::recursive_directory_iterator it(input, how, error), end; !error && it != end; it.increment(error))
        refuse_input(it->path().string(), true);
  }
  for (const Output& output : outputs)
    if (!output.path.empty()) check_one(output);
}

AtomicFile::AtomicFile(Output output, bool unnamed) : output_(std::move(output)) {
  check_one(output_);
  target_ = behind_links(output_.path);
  folder_ = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0)
    folder_ = open(folder_of(target_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);  // may be written, not listed
  if (folder_ < 0) fail_here();
  remove_abandoned(folder_);
  struct stat old;
  const bool replaces = fstatat(folder_, name_of(target_).c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  const mode_t mode = replaces ? old.st_mode & 0777 : 0666;
  // Through /proc it gets its name in the end.
  if (unnamed && access("/proc/self/fd", X_OK) == 0) fd_ = openat(folder_, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  try {
    if (fd_ < 0) name_it(O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (replaces) {
      const bool group_stays = fchown(fd_, old.st_uid, old.st_gid) == 0 || fchown(fd_, uid_t(-1), old.st_gid) == 0;
      if (fchmod(fd_, group_stays ? mode : mode & ~mode_t(S_IRWXG)) != 0) fail_here();
    }
  } catch (...) {
    if (!temporary_.empty()) unlinkat(folder_, temporary_.c_str(), 0);
    if (fd_ >= 0) close(fd_);
    close(folder_);
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    if (!temporary_.empty()) unlinkat(folder_, temporary_.c_str(), 0);
    close(fd_);
  }
  close(folder_);
}

void AtomicFile::fail_here() const {
  const int error = errno;
  fail(kind_of(error), "cannot write ", shown(output_), ": ", std::strerror(error),
       "; what was there before is unchanged");
}

// Makes the file under a name of its own, or gives one to that which has none yet (`flags` 0).
void AtomicFile::name_it(int flags, unsigned mode) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::string name = random_name();
    if (flags) {
      fd_ = openat(folder_, name.c_str(), flags, mode);
      if (fd_ < 0 && errno == EEXIST) continue;
      if (fd_ < 0) fail_here();
      // Between the two calls somebody may have taken it for abandoned: then it has no name any more.
      struct stat info;
      const bool locked = flock(fd_, LOCK_EX | LOCK_NB) == 0;
      if ((locked || errno != EWOULDBLOCK) && fstat(fd_, &info) == 0 && info.st_nlink > 0) {
        temporary_ = name;
        return;
      }
      close(fd_);
      fd_ = -1;
    } else {
      flock(fd_, LOCK_EX | LOCK_NB);  // where that cannot be, others cannot lock it either
      if (linkat(AT_FDCWD, link_of(fd_).c_str(), folder_, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = name;
        return;
      }
      if (errno != EEXIST) fail_here();
    }
  }
  errno = EEXIST;
  fail_here();
}

void AtomicFile::write(const void* data, size_t bytes) {
  auto* at = static_cast<const char*>(data);
  const size_t all = bytes;
  while (bytes > 0) {
    ssize_t done = ::write(fd_, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_here();
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
  if (fsync(fd_) != 0) fail_here();
  if (temporary_.empty()) name_it(0, 0);
  if (renameat(folder_, temporary_.c_str(), folder_, name_of(target_).c_str()) != 0) fail_here();
  temporary_.clear();
  close(fd_);
  fd_ = -1;
  // Not every file system can flush a folder, and one that was opened for its path alone cannot be flushed.
  if (fsync(folder_) != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
    fail(ErrorKind::machine, shown(output_),
         " is written, but its folder could not be flushed to the disk: ", std::strerror(errno),
         "; after a loss of power the file may be as it was before");
}

void write_file_atomically(Output output, std::string_view content) {
  AtomicFile file(std::move(output));
  file.write(content.data(), content.size());
  file.commit();
}

}  // namespace temper
