// SPDX-License-Identifier: Apache-2.0
// Long work reports its progress to the front end through this, and the front end shows it.
#pragma once
#include <functional>
#include <string>

#include "base/concat.h"

namespace temper {

struct ProgressStep {
  std::string what;            // "calibrating"
  double done = 0, total = 0;  // of `unit`; total 0: nobody knows
  std::string unit;            // "samples"; "s": of time, where the total is the most that it takes
  std::string more;            // what stands behind: "230 candidates"
};
std::string text_of(const ProgressStep& step);  // "calibrating: 120 of 500 samples"

// Called now and then. Empty: nobody is told.
using Progress = std::function<void(const ProgressStep& step)>;

inline void tell(const Progress& progress, const ProgressStep& step) {
  if (progress) progress(step);
}
// Puts the words together only where somebody is told.
template <class... Parts>
void tell_words(const Progress& progress, const Parts&... parts) {
  if (progress) progress({concat(parts...)});
}
// What is told of a part of the work, named by it.
Progress within(const Progress& progress, const std::string& part);

// Adds speed and time left, from how fast it went since the words last changed.
class ProgressMeter {
 public:
  // "calibrating: 120 of 500 samples, 35/s, 11 s left"; with a `width` (code points, which it keeps to) also a bar.
  // `seconds`: by any clock that never goes back.
  std::string line(const ProgressStep& step, double seconds, size_t width = 0);

 private:
  std::string what_;
  double start_ = 0, first_ = 0, last_ = 0;
};

}  // namespace temper
