// SPDX-License-Identifier: Apache-2.0
// Limits the time that the search for a plan takes, and notes what it could not measure.
#pragma once
#include <atomic>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "base/concat.h"
#include "measure/clock.h"

namespace temper {

class SearchLimit {
 public:
  // Of each shape. The clock outlives this and, where other threads ask is_over(), may be asked by them.
  SearchLimit(double seconds, Clock& clock) : ms_(1e3 * seconds), clock_(clock) { start(); }
  // For the next shape.
  void start() {
    end_ms_ = clock_.now_ms() + ms_;
    left_out_.clear();
  }
  // Since it was started.
  double seconds() const { return (clock_.now_ms() - end_ms_ + ms_) / 1e3; }
  bool is_over() const { return clock_.now_ms() >= end_ms_; }

  // A candidate by its timing key; once, however often it was asked for.
  void leave_out(std::string_view tactic, std::string key) { left_out_[std::string(tactic)].insert(std::move(key)); }
  // By tactic, how many candidates; empty where the search came to its end.
  std::map<std::string, int64_t> left_out() const {
    std::map<std::string, int64_t> counts;
    for (const auto& [tactic, keys] : left_out_) counts[tactic] = int64_t(keys.size());
    return counts;
  }
  // For people: "the search ended after 120 s (--time-limit): 3 candidates were not measured: 2 of a, 1 of b".
  std::string text() const {
    int64_t all = 0;
    std::string parts;
    for (const auto& [tactic, count] : left_out()) {
      all += count;
      parts += concat(parts.empty() ? "" : ", ", count, " of ", tactic);
    }
    return concat("the search ended after ", ms_ / 1e3, " s (--time-limit): ", all,
                  all == 1 ? " candidate was" : " candidates were", " not measured: ", parts);
  }

 private:
  const double ms_;
  Clock& clock_;
  std::atomic<double> end_ms_ = 0;
  std::map<std::string, std::set<std::string>> left_out_;  // keys by tactic
};

}  // namespace temper
