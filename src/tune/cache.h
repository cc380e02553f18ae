// SPDX-License-Identifier: Apache-2.0
// Measured times of candidates, by text key. A JSON file, written atomically, shared safely by several processes.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "measure/load_watch.h"

namespace temper {

// A time, and what can be believed of it.
struct TimedEntry {
  double ms = 0;
  // Cores that other processes used while it was taken; nothing where nobody watched (files of schema 1).
  std::optional<double> load;
  int64_t when = 0;  // seconds since 1970, UTC; 0: not known
  // Taken while others worked, or nobody knows: a build on a quiet machine takes it again.
  bool suspect() const { return !load || *load >= kLoadThatCounts; }
  // Whether it is to be believed rather than `other`: less load, then the later.
  bool better_than(const TimedEntry& other) const;
};

class TimingCache {
 public:
  TimingCache() = default;
  // Reads `path` if it exists. A damaged file is set aside as `path`.bad with a warning and rebuilt; one of a later
  // schema, and one that is not to be trusted (base/file.h), is left as it is, with a warning, and not used: a cache is
  // never worth a failure. But a file that does not even begin as a timing cache is somebody's, named by mistake:
  // Error{usage}.
  explicit TimingCache(std::string path);

  std::optional<double> find(const std::string& key) const;
  std::optional<TimedEntry> entry(const std::string& key) const;
  void add(const std::string& key, const TimedEntry& entry);
  // Taken now. Without a load: by a clock that others cannot disturb, such as a GPU's.
  void add(const std::string& key, double ms, double load = 0);
  bool is_kept() const { return !path_.empty(); }  // in a file
  // What happened to a candidate that faulted, a kernel or its process: it is not tried again.
  std::optional<std::string> fault(const std::string& key) const;
  void add_fault(const std::string& key, std::string what);
  size_t size() const { return entries_.size(); }
  const std::map<std::string, TimedEntry>& entries() const { return entries_; }
  std::map<std::string, double> times() const;
  // Merges what was added with what the file holds by now, under a lock. Without a path, or with nothing added: no
  // work. A file that cannot be written is a warning.
  void save();

 private:
  void merge() const;

  std::string path_;
  std::map<std::string, TimedEntry> entries_, added_;
  std::map<std::string, std::string> faults_;
  bool fault_added_ = false;
};

}  // namespace temper
