// SPDX-License-Identifier: Apache-2.0
// Measured times of candidates, by text key. A JSON file, written atomically, shared safely by several processes.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace temper {

class TimingCache {
 public:
  TimingCache() = default;
  // Reads `path` if it exists. A damaged file is set aside as `path`.bad with a warning and rebuilt: a cache is never
  // worth a failure.
  explicit TimingCache(std::string path);

  std::optional<double> find(const std::string& key) const;
  void add(const std::string& key, double ms);
  size_t size() const { return entries_.size(); }
  size_t added() const { return added_.size(); }
  const std::map<std::string, double>& entries() const { return entries_; }
  // Merges what was added with what the file holds by now, under a lock. Without a path, or with nothing added: no work.
  // A file that cannot be written is a warning.
  void save();

 private:
  void merge() const;

  std::string path_;
  std::map<std::string, double> entries_, added_;
};

}  // namespace temper
