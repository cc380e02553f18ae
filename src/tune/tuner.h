// SPDX-License-Identifier: Apache-2.0
// Times candidates with the one timer and remembers the results.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <set>

#include "backends/backend.h"
#include "base/time_spent.h"
#include "measure/instruments.h"
#include "measure/timer.h"
#include "plan/options.h"
#include "tune/cache.h"
#include "tune/helper.h"

namespace temper {

class Tuner {
 public:
  // `helper`: times candidates of other libraries; null: they are timed here.
  Tuner(const Device& device, TimingCache& cache, const Instruments& instruments = {}, TimingHelper* helper = nullptr);
  ~Tuner();

  // Milliseconds of one run of the candidate; with chains > 1, of `chains` copies that run side by side, each on its
  // own data, as the chains of a parallel segment do. From the cache where known; but what was taken while others
  // worked is taken again where the machine is quiet now. `over_workspace` when the candidate needs more than
  // `workspace_limit` bytes (if that is not negative); `unknown` when it has faulted on such a device: see fault().
  // `best_ms`: of rivals that were timed elsewhere. Throws where a candidate takes the device with it; the cache
  // remembers which.
  CandidateTime time(const Problem& problem, const Tactic& tactic, const Config& config, int chains,
                     int64_t workspace_limit = -1, double best_ms = std::numeric_limits<double>::infinity());
  // The same without measuring: nothing where time() would measure.
  std::optional<CandidateTime> known(const Problem& problem, const Tactic& tactic, const Config& config, int chains);
  // Tells what happened when this candidate ran, where it faulted; "" otherwise.
  std::string fault(const Problem& problem, const Tactic& tactic, const Config& config) const;
  // Whether the device is lost to this process.
  bool is_lost() const;

  // `hopeless` without measuring when, in a problem of the same family that was timed in full, this candidate took
  // `kHopeless` times as long as the best: few of many candidates are worth timing for every size of slice.
  CandidateTime time_unless_hopeless(const std::string& family, const Problem& problem, const Tactic& tactic,
                                     const Config& config, int chains, int64_t workspace_limit = -1);
  static constexpr double kHopeless = 1.5;

  // Times contenders again, in turns: several short rounds over all of them, so that what slows the machine for a
  // moment slows all. By contender the least time, that of time() included; those from the file stay as they are.
  std::vector<double> refine(const Problem& problem, const std::vector<CandidateRef>& contenders, int chains);

  // From now on times of this problem (Problem::text()) that are from the file are not believed: they are taken again
  // when they are asked for. Whether there was any.
  bool doubt(const std::string& problem);

  // Marks what was timed last with the load of others meanwhile. Called before the cache is saved.
  void finish();

  int timed() const { return timed_; }
  // Counts of the times taken: how many while others worked, and the most cores that they used.
  int64_t suspect() const { return suspect_; }
  double most_load() const { return most_load_; }
  std::optional<double> last_load() const { return last_load_; }     // about the last second of measuring
  std::function<void(int timed, const std::string& what)> progress;  // called before each measurement
  TimeSpent* time_spent = nullptr;                                   // gets what compiling and timing take

 private:
  const Device& device_;
  TimingCache& cache_;
  TimingHelper* const helper_;
  int timed_ = 0;
  struct Spent {
    int candidates = 0;
    double seconds = 0;  // with what preparing them took
  };
  std::map<std::string_view, Spent> spent_;  // by tactic, for those who look for what a build waits for
  std::map<std::string, double> best_;       // by problem and chains, for giving up early
  struct Family {
    std::string first;                 // the problem that was timed in full
    std::map<std::string, double> ms;  // by candidate
    double best = std::numeric_limits<double>::infinity();
  };
  std::map<std::string, Family> families_;
  std::set<std::string> fresh_;                // keys that this tuner has timed
  std::set<std::string> doubted_, from_file_;  // problems
  // Times are marked with the load of the window in which they were taken.
  const Instruments instruments_;
  LoadWatch window_;
  std::vector<std::string> in_window_;  // keys
  std::optional<double> last_load_;     // of the last window
  int64_t suspect_ = 0;
  double most_load_ = 0;
  class Scratch;
  struct Instance;
  std::unique_ptr<Queue> queue_;  // null: the device works on the host's memory
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Kernel> last_;  // that was timed on the device

  bool is_believed(const std::string& key, const Problem& problem, const TimedEntry& known);
  bool is_quiet();
  void close_window(double load);
  void keep(const std::string& key, double ms);
  CandidateTime measure(const Problem& problem, const Tactic& tactic, const Config& config, int chains,
                        int64_t workspace_limit, const QuickOptions& options);
  // The same for what another library launches.
  CandidateTime measure_foreign(const std::string& key, const Problem& problem, const Tactic& tactic,
                                const Config& config, int64_t workspace_limit, const QuickOptions& options);
  // A candidate ready to be timed.
  struct Ready;
  Ready prepare(const Problem& problem, const Tactic& tactic, const Config& config, int chains);
  double look(Ready& ready, const QuickOptions& options);
  double time_on_device(Instance& instance, const QuickOptions& options);
};

}  // namespace temper
