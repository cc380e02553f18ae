// SPDX-License-Identifier: Apache-2.0
#include "measure/paired.h"

#include <algorithm>
#include <cmath>

#include "measure/timer.h"

namespace temper {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster: return "FASTER";
    case Verdict::slower: return "SLOWER";
    case Verdict::same: return "SAME";
    case Verdict::unsure: return "UNSURE";
  }
  __builtin_unreachable();
}

Verdict verdict_of(const Interval& interval, double same) {
  if (interval.low >= 1 / (1 + same) && interval.high <= 1 + same) return Verdict::same;
  if (interval.low > 1) return Verdict::faster;
  if (interval.high < 1) return Verdict::slower;
  return Verdict::unsure;
}

namespace {

// One body with what a turn of it looks like.
struct Side {
  const std::function<void()>& body;
  int calls = 1, samples = 1;  // calls that are timed together; how often

  void prepare(double turn_ms, Clock& clock) {
    body();
    double ms = clock.elapsed_ms(body, 1);
    if (ms < kShortMs) {  // too short to be timed alone
      calls = int(std::ceil(kShortMs / std::max(ms, kShortMs / 10000)));
      ms = clock.elapsed_ms(body, calls);
    }
    samples = int(std::clamp(turn_ms / std::max(ms, 1e-6), 1.0, 10000.0));
  }
  double turn(Clock& clock) const {
    body();
    std::vector<double> ms;
    for (int i = 0; i < samples; ++i) ms.push_back(clock.elapsed_ms(body, calls) / calls);
    return median(std::move(ms));
  }
};

}  // namespace

Paired measure_paired(const std::function<void()>& a, const std::function<void()>& b, const PairedOptions& options, Clock& clock) {
  Side first{a}, second{b};
  for (int i = 0; i < 2; ++i) {  // the first time is cold
    first.prepare(options.turn_ms, clock);
    second.prepare(options.turn_ms, clock);
  }
  Paired result;
  const double start = clock.now_ms();
  for (int round = 0; round < options.max_rounds; ++round) {
    const double seconds = (clock.now_ms() - start) / 1e3;
    if (options.progress) options.progress(round, seconds);
    if (round >= options.min_rounds && (seconds >= options.max_seconds || result.interval.high - result.interval.low < 2 * options.relative_error * result.ratio)) break;
    const double a1 = first.turn(clock), b1 = second.turn(clock), b2 = second.turn(clock), a2 = first.turn(clock);
    result.a_ms.insert(result.a_ms.end(), {a1, a2});
    result.b_ms.insert(result.b_ms.end(), {b1, b2});
    result.ratios.push_back((a1 + a2) / (b1 + b2));
    if (round + 1 < options.min_rounds) continue;
    result.ratio = median(result.ratios);
    result.interval = bootstrap_interval(result.ratios, [](const std::vector<double>& ratios) { return median(ratios); }).value_or(Interval{0, 0});
  }
  result.verdict = verdict_of(result.interval, options.same);
  return result;
}

}  // namespace temper
