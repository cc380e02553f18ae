// SPDX-License-Identifier: Apache-2.0
// The time that a whole build may take. It is checked between nodes of the import, passes, some nodes of a pass,
// planning steps and candidates.
#pragma once
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace temper {

class BuildTime {
 public:
  BuildTime() = default;  // as long as it takes
  // `now_s`: seconds of a clock that never goes back; empty: those of std::chrono::steady_clock.
  explicit BuildTime(double seconds, std::function<double()> now_s = {})
      : seconds_(seconds), now_s_(std::move(now_s)) {}

  double seconds() const { return seconds_; }
  // Its time runs from now on; where it runs already, that goes on, so that a build within another one shares its time.
  void begin() {
    if (!end_s_) begin_at(now());
  }
  void begin_at(double now_s) { end_s_ = now_s + seconds_; }
  // Throws Error{check_failed}, which names the limit, where the time is over. Before it begins, nothing happens.
  void check() const {
    if (end_s_ && seconds_ < kForever && now() >= *end_s_)
      fail(ErrorKind::check_failed, "the build takes longer than ", seconds_,
           " s; --build-limit SECONDS sets another limit");
  }
  // The same in a loop over very many nodes, at each 1024th: the clock is not looked at between.
  void check_at(int64_t n) const {
    if (n % 1024 == 0) check();
  }

 private:
  static constexpr double kForever = std::numeric_limits<double>::infinity();
  double seconds_ = kForever;
  std::function<double()> now_s_;
  std::optional<double> end_s_;

  double now() const {
    if (now_s_) return now_s_();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

}  // namespace temper
