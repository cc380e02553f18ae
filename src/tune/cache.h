// SPDX-License-Identifier: Apache-2.0
// Measured times of candidates, and what was decided by them. A JSON file, written atomically, shared safely by several
// processes.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
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

// The candidate that was chosen for a problem in one graph.
struct Decision {
  std::string candidate;  // tactic, configuration and layouts, as timing_key() writes them behind the group
  int threads = 0;        // that its step runs on; 0: all of the plan
  TimedEntry time;        // of the step
  bool better_than(const Decision& other) const { return time.better_than(other.time); }
};

// The decisions on pairs of convolutions in one graph, by their names: whether one kernel for both is faster.
using PairDecisions = std::map<std::string, bool>;

// The result of a graph's run on noise: values that fp16 does not hold, by their names, with their largest element.
using NoiseRun = std::map<std::string, double>;

// The records of one kind, by a text key, and which of them are new since the file was read.
template <class Record>
class Records {
 public:
  const Record* find(const std::string& key) const {
    const auto it = all_.find(key);
    return it == all_.end() ? nullptr : &it->second;
  }
  // Is there one whose key begins so?
  bool has_prefix(const std::string& start) const {
    const auto it = all_.lower_bound(start);
    return it != all_.end() && it->first.starts_with(start);
  }
  void add(const std::string& key, Record record) { all_[key] = added_[key] = std::move(record); }
  const std::map<std::string, Record>& all() const { return all_; }

 private:
  friend class TimingCache;
  std::map<std::string, Record> all_, added_;
};

class TimingCache {
 public:
  TimingCache() = default;
  // Reads `path` if it exists. A damaged file is set aside as `path`.bad with a warning and rebuilt; one of a later
  // schema, and one that is not to be trusted (base/file.h), is left as it is, with a warning, and not used: a cache is
  // never worth a failure. But a file that does not even begin as a timing cache is somebody's, named by mistake:
  // Error{usage}. Files of earlier schemas are read, and written again as the present one.
  explicit TimingCache(std::string path);

  // The text of its file, and the cache that such a text makes. Throws Error{bad_file} where it is none, and
  // Error{unsupported} where it is of a later version.
  std::string text() const;
  static TimingCache of_text(std::string_view text);
  // Takes what `other` holds; where both know a thing, what is to be believed rather.
  void add_all(const TimingCache& other);

  // Times of candidates, each alone, by timing_key().
  std::optional<double> find(const std::string& key) const;
  std::optional<TimedEntry> entry(const std::string& key) const;
  void add(const std::string& key, const TimedEntry& entry) { times_.add(key, entry); }
  // Taken now. Without a load: by a clock that others cannot disturb, such as a GPU's.
  void add(const std::string& key, double ms, double load = 0);
  size_t size() const { return times_.all().size(); }
  const std::map<std::string, TimedEntry>& entries() const { return times_.all(); }
  std::map<std::string, double> times() const;

  Records<TimedEntry> in_plans;        // of candidates within whole plans, by timing_key()
  Records<TimedEntry> peaks;           // of a thousand million operations or bytes, by machine and what is counted
  Records<Decision> decisions;         // by decision_key()
  Records<PairDecisions> fused_pairs;  // by decision_key() with the machine's fingerprint for the group
  Records<NoiseRun> noise_runs;        // by the hash of the graph and its constants

  bool is_kept() const { return !path_.empty(); }  // in a file
  // Notes what happened to a candidate that faulted, a kernel or its process: it is not tried again.
  std::optional<std::string> fault(const std::string& key) const;
  void add_fault(const std::string& key, std::string what);
  // Merges what was added with what the file holds by now, under a lock. Without a path, or with nothing added: no
  // work. A file that cannot be written is a warning.
  void save();

 private:
  Records<TimedEntry> times_;
  Records<std::string> faults_;
  std::string path_;

  // Calls visit(its name in the file, that table of each cache) for every table.
  template <class Visit, class... Caches>
  static void for_each_table(Visit&& visit, Caches&... caches) {
    visit("entries", caches.times_...);
    visit("in_plans", caches.in_plans...);
    visit("peaks", caches.peaks...);
    visit("decisions", caches.decisions...);
    visit("fused_pairs", caches.fused_pairs...);
    visit("noise_runs", caches.noise_runs...);
    visit("faults", caches.faults_...);
  }
  void read(const std::string& path);
  void read_text(const std::string& text, const std::string& what);
  void take_old(const std::string& key, const TimedEntry& entry);
  void merge() const;
};

// A cache in memory that several builds may use at once.
class SharedTimingCache {
 public:
  SharedTimingCache() = default;
  explicit SharedTimingCache(TimingCache cache) : cache_(std::move(cache)) {}
  TimingCache now() const {
    const std::lock_guard lock(mutex_);
    return cache_;
  }
  void add_all(const TimingCache& other) {
    const std::lock_guard lock(mutex_);
    cache_.add_all(other);
  }

 private:
  mutable std::mutex mutex_;
  TimingCache cache_;
};

// A time that was taken just now.
TimedEntry taken_now(double ms, double load = 0);
// `graph`: the hash of its text; `group`: exact_group() of the problem on all threads of the plan.
std::string decision_key(const std::string& graph, const std::string& group);

}  // namespace temper
