// SPDX-License-Identifier: Apache-2.0
// Options of the planner: segments, threads, and where times come from.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/packs.h"

namespace temper {

// Nodes [first, last] of the graph as one segment.
struct SegmentSpec {
  int32_t first = 0, last = 0;
  int64_t slice = 0;      // samples at a time; 0: the whole batch
  bool parallel = false;  // one chain per thread
  bool operator==(const SegmentSpec&) const = default;
};

// The time of a candidate or, where there is none, why.
struct CandidateTime {
  enum class Kind : uint8_t {
    known,
    unknown,         // nobody timed it: the order of the list decides
    over_workspace,  // it needs more than PlanOptions::workspace_limit
    hopeless,        // it was so slow for a similar problem that it is not worth timing
    out_of_time,     // the search had taken its time before anybody timed it
  };
  Kind kind = Kind::unknown;
  double ms = -1;  // where it is known
  static CandidateTime of(double ms) { return {Kind::known, ms}; }
  bool is_known() const { return kind == Kind::known; }
};

// A way to compute a node that the plan may take.
struct CandidateRef {
  const Problem* problem;
  const Tactic* tactic;
  Config config;
};

struct DecidedCandidate {
  const Tactic* tactic = nullptr;  // null: nothing is decided
  Config config;
  double ms = -1;
};

// A source of the times of candidates, for the planner: a tuner that measures, the times of a file, what an earlier
// build decided. This class knows none. `chains`: how many of the candidate run side by side.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual CandidateTime time(const Problem&, const Tactic&, const Config&, int /*chains*/) { return {}; }
  // Tells what happened when the candidate ran, where it must not run again; "" otherwise.
  virtual std::string fault(const Problem&, const Tactic&, const Config&) { return ""; }
  // Has the search taken its time? What is known then must do: nothing more is measured for the choice.
  virtual bool is_over() { return false; }
  // The next questions are for this node, of so many.
  virtual void at_node(int64_t /*node*/, int64_t /*nodes*/) {}
  // Will soon be built, in this order: who compiles in the background may begin.
  virtual void expect(const std::vector<CandidateRef>&) {}
  // The candidate of a problem that needs no choice.
  virtual DecidedCandidate decided(const Problem&) { return {}; }
  // Measures once more, in turns, what came out near the top, and gives the better of both times of each; nothing:
  // times are final. One look at each candidate in turn is at the mercy of whatever else the machine did at that
  // moment.
  virtual std::vector<double> refine(const Problem&, const std::vector<CandidateRef>&, int /*chains*/) { return {}; }
};

// How many threads compute a problem, which comes as one for all of them; more and fewer than possible are the next
// possible.
using ThreadsOf = std::function<int(const Problem&)>;

struct PlanOptions {
  int threads = 1;
  ThreadsOf threads_of;               // empty: all; chains that run side by side have one each in any case
  std::vector<SegmentSpec> segments;  // empty: one, whole batch
  TimeSource* times = nullptr;        // null: nothing is known
  int64_t workspace_limit = -1;       // bytes; candidates above it are refused with that reason
  PackCache* packs = nullptr;

  bool search_is_over() const { return times && times->is_over(); }
};

}  // namespace temper
