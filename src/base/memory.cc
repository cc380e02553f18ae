// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/parse.h"

namespace temper {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kWorthAsking = int64_t(64) << 20;

// The number that a line "KEY NUMBER ..." or "KEY: NUMBER ..." of a file has; with an empty key the file's first
// number. Nothing where there is no file, no such line, or "max".
std::optional<int64_t> number_in(const std::string& path, std::string_view key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = line;
    if (!rest.starts_with(key)) continue;
    rest.remove_prefix(key.size());
    if (!key.empty() && !rest.starts_with(':') && !rest.starts_with(' ')) continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(": \t"), rest.size()));
    if (const auto value = parse_leading<int64_t>(rest)) return value->value;
    return std::nullopt;
  }
  return std::nullopt;
}

struct Group {
  std::string root, limit, used, reclaimable;  // a hierarchy's folder, and its files
};

// What the control groups from `path` up to the hierarchy's root leave.
int64_t left_in(const Group& group, std::string path) {
  int64_t left = kNoLimit;
  for (;;) {
    const std::string folder = group.root + path + (path.ends_with('/') ? "" : "/");
    const auto limit = number_in(folder + group.limit), used = number_in(folder + group.used);
    if (limit && used)
      left = std::min(left, std::max<int64_t>(
                                0, *limit - *used + number_in(folder + "memory.stat", group.reclaimable).value_or(0)));
    if (path.empty() || path == "/") return left;
    path.resize(path.rfind('/'));
  }
}

int64_t left_in_groups() {
  int64_t left = kNoLimit;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/a/b" of version 2, "7:memory:/a/b" of version 1
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (!path.starts_with('/')) continue;
    if (controllers.empty())
      left = std::min(left, left_in({"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}, path));
    if (concat(',', controllers, ',').find(",memory,") != std::string::npos)
      left = std::min(left, left_in({"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                     "total_inactive_file"},
                                    path));
  }
  return left;
}

}  // namespace

int64_t free_memory() {
  int64_t left = kNoLimit;
  if (const auto available = number_in("/proc/meminfo", "MemAvailable"))
    left = (*available + number_in("/proc/meminfo", "SwapFree").value_or(0)) << 10;
  left = std::min(left, left_in_groups());
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const int64_t used = number_in("/proc/self/statm").value_or(0) * sysconf(_SC_PAGESIZE);
    left = std::min(left, std::max<int64_t>(0, int64_t(std::min<rlim_t>(limit.rlim_cur, rlim_t(kNoLimit))) - used));
  }
  return left;
}

void check_free_memory(int64_t bytes, std::string_view what) {
  if (bytes < kWorthAsking) return;
  if (const int64_t left = free_memory(); bytes > left)
    fail(ErrorKind::machine, "out of memory: ", what, " ", readable_bytes(bytes), ", and ", readable_bytes(left),
         " are free");
}

std::string readable_bytes(int64_t bytes) {
  if (bytes < int64_t(1) << 20) return concat(bytes, " bytes");
  char text[40];
  const bool many = bytes >= int64_t(1) << 30;
  std::snprintf(text, sizeof text, "%.1f %s", double(bytes) / double(many ? 1 << 30 : 1 << 20), many ? "GiB" : "MiB");
  return text;
}

}  // namespace temper
