// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <algorithm>
#include <cmath>

#include "base/quote.h"

namespace temper {

namespace {

// Seconds and speeds to one digit behind the point at most, counts whole.
std::string number(double value) { return concat(value < 10 ? std::round(10 * value) / 10 : std::round(value)); }

std::string of_total(const ProgressStep& step) {
  if (step.total <= 0) return step.done > 0 ? concat(number(step.done), " ", step.unit) : "";
  return concat(number(std::min(step.done, step.total)), step.unit == "s" ? " of at most " : " of ", number(step.total),
                step.unit.empty() ? "" : " ", step.unit);
}

std::string time_left(double seconds) {
  if (seconds < 90) return concat(std::ceil(seconds), " s left");
  if (seconds < 5400) return concat(std::round(seconds / 60), " min left");
  return concat(number(seconds / 3600), " h left");
}

std::string joined(const std::string& a, const std::string& b, const char* between = ", ") {
  return a.empty() || b.empty() ? a + b : concat(a, between, b);
}

size_t code_points(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

std::string first_code_points(const std::string& text, size_t count) {
  size_t at = 0;
  for (size_t seen = 0; at < text.size(); ++at)
    if ((uint8_t(text[at]) & 0xc0) != 0x80 && seen++ == count) break;
  return text.substr(0, at);
}

}  // namespace

std::string text_of(const ProgressStep& step) { return joined(joined(step.what, of_total(step), ": "), step.more); }

Progress within(const Progress& progress, const std::string& part) {
  if (!progress) return {};
  return [progress, part](ProgressStep step) {
    step.what = concat(part, ": ", step.what);
    progress(step);
  };
}

std::string ProgressMeter::line(const ProgressStep& step, double seconds, size_t width) {
  constexpr double kLeastSeconds = 1;  // before a speed says anything
  constexpr size_t kBar = 20;
  if (step.what != what_ || step.done < last_) {
    what_ = step.what;
    start_ = seconds;
    first_ = step.done;
  }
  last_ = step.done;
  const double taken = seconds - start_, speed = taken >= kLeastSeconds ? (step.done - first_) / taken : 0;
  std::string pace;
  if (step.unit == "s") pace = step.total > step.done ? "at most " + time_left(step.total - step.done) : "";
  else if (speed > 0) {
    pace = speed >= 1 ? concat(number(speed), "/s") : concat(number(1 / speed), " s each");
    if (step.total > 0) pace = joined(pace, time_left(std::max(0.0, step.total - step.done) / speed));
  }
  const std::string text = printable(joined(text_of(step), pace));
  if (width == 0) return text;
  if (step.total > 0 && code_points(text) + kBar + 4 <= width) {
    const size_t full = size_t(std::round(std::clamp(step.done / step.total, 0.0, 1.0) * kBar));
    return concat("[", std::string(full, '#'), std::string(kBar - full, '-'), "] ", text);
  }
  return first_code_points(text, width);
}

}  // namespace temper
