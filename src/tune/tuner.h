// SPDX-License-Identifier: Apache-2.0
// Times candidates with the one timer and remembers the results.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <set>

#include "backends/backend.h"
#include "measure/timer.h"
#include "tune/cache.h"

namespace temper {

class Tuner {
 public:
  Tuner(const Device& device, TimingCache& cache);
  ~Tuner();

  // Milliseconds of one run of the candidate; with chains > 1, of `chains` copies that run side by side, each on its own
  // data, as the chains of a parallel segment do. From the cache where known. Negative when the candidate needs more than
  // `workspace_limit` bytes (if that is not negative).
  double time(const Problem& problem, const Tactic& tactic, const Config& config, int chains, int64_t workspace_limit = -1);

  // Negative without measuring when, in a problem of the same family that was timed in full, this candidate took
  // `kHopeless` times as long as the best: few of many candidates are worth timing for every size of slice.
  double time_unless_hopeless(const std::string& family, const Problem& problem, const Tactic& tactic, const Config& config, int chains, int64_t workspace_limit = -1);
  static constexpr double kHopeless = 1.5;

  // Times a candidate again that this tuner has timed (not one from the file), and keeps the better time.
  double refine(const Problem& problem, const Tactic& tactic, const Config& config, int chains);

  int timed() const { return timed_; }
  std::function<void(int timed, const std::string& what)> progress;  // called before each measurement

 private:
  const Device& device_;
  TimingCache& cache_;
  int timed_ = 0;
  std::map<std::string, double> best_;  // by problem and chains, for giving up early
  struct Family {
    std::string first;                 // the problem that was timed in full
    std::map<std::string, double> ms;  // by candidate
    double best = std::numeric_limits<double>::infinity();
  };
  std::map<std::string, Family> families_;
  std::set<std::string> fresh_;         // keys that this tuner has timed
  class Scratch;
  struct Instance;
  std::unique_ptr<Queue> queue_;  // null: the device works on the host's memory
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Kernel> last_;  // that was timed on the device

  double measure(const Problem& problem, const Tactic& tactic, const Config& config, int chains, int64_t workspace_limit, const QuickOptions& options);
  double time_on_device(Instance& instance, const QuickOptions& options);
};

}  // namespace temper
