// SPDX-License-Identifier: Apache-2.0
#include "bench/plan_times.h"

#include "bench/table.h"
#include "measure/load_watch.h"

namespace temper {

std::string whole_text(const WholeTime& whole) {
  if (!whole.is_measured()) return "not measured";
  std::string text = concat(format_number(whole.ms), " ms measured");
  if (whole.low >= 0) text += concat(" (", format_number(whole.low), " to ", format_number(whole.high), ')');
  if (whole.load >= kLoadThatCounts)
    text += concat(" while other processes used ", format_number(whole.load, 2), " cores");
  return text;
}

std::string steps_text(const Plan& plan) {
  const int64_t untimed = plan.untimed_steps();
  int64_t steps = 0;
  for (const Segment& segment : plan.segments) steps += int64_t(segment.steps.size());
  if (untimed == steps) return "not timed";
  const std::string sum = concat(format_number(plan.steps_ms()), " ms in all, timed one by one");
  return untimed ? concat("at least ", sum, ": ", untimed, " of ", steps, " have no time") : sum;
}

}  // namespace temper
