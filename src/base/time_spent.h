// SPDX-License-Identifier: Apache-2.0
// Counts the seconds that each part of a long work takes, each second for one part.
#pragma once
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"

namespace temper {

// For one thread, which is in one part at a time.
class TimeSpent {
 public:
  // `now_s`: seconds of a clock that never goes back; empty: those of std::chrono::steady_clock.
  explicit TimeSpent(std::function<double()> now_s = {}) : now_s_(std::move(now_s)) {}
  TimeSpent(const TimeSpent&) = delete;

  // While it lives, time counts for `part`, and for a part within it in its place. `spent`: null where nobody asks.
  class In {
   public:
    In(TimeSpent* spent, std::string_view part) : spent_(spent) {
      if (!spent_) return;
      const size_t inner = spent_->number_of(part);
      outer_ = spent_->enter(inner);
    }
    ~In() {
      if (spent_) spent_->enter(outer_);
    }
    In(const In&) = delete;

   private:
    TimeSpent* const spent_;
    size_t outer_ = kNone;
  };

  // By part, in the order in which they were first entered; the present one so far.
  std::vector<std::pair<std::string, double>> parts() const {
    auto parts = parts_;
    if (current_ != kNone) parts[current_].second += now() - since_;
    return parts;
  }
  // "passes 1.2 s, timing candidates 3 s", rounded to hundredths.
  std::string text() const {
    std::string text;
    for (const auto& [part, seconds] : parts())
      text += concat(text.empty() ? "" : ", ", part, ' ', std::round(100 * seconds) / 100, " s");
    return text;
  }

 private:
  static constexpr size_t kNone = size_t(-1);
  std::function<double()> now_s_;
  std::vector<std::pair<std::string, double>> parts_;
  size_t current_ = kNone;
  double since_ = 0;

  double now() const {
    if (now_s_) return now_s_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  size_t number_of(std::string_view part) {
    for (size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].first == part) return i;
    parts_.emplace_back(part, 0);
    return parts_.size() - 1;
  }
  // The part that it was in.
  size_t enter(size_t part) {
    const double at = now();
    if (current_ != kNone) parts_[current_].second += at - since_;
    since_ = at;
    return std::exchange(current_, part);
  }
};

}  // namespace temper
