// SPDX-License-Identifier: Apache-2.0
#include "measure/paired.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/concat.h"
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
  double call_ms = std::numeric_limits<double>::infinity();

  // Called a few times: the least time is what others disturb least.
  void prepare(double turn_ms, Clock& clock) {
    body();
    const double ms = clock.elapsed_ms(body, calls) / calls;
    if (ms < kShortMs && calls == 1) {  // too short to be timed alone
      calls = int(std::ceil(kShortMs / std::max(ms, kShortMs / 10000)));
      return prepare(turn_ms, clock);
    }
    call_ms = std::min(call_ms, ms);
    samples = int(std::clamp(turn_ms / std::max(call_ms * calls, 1e-6), 1.0, 10000.0));
  }
  double turn(Clock& clock, std::vector<double>& all) const {
    body();
    std::vector<double> ms;
    for (int i = 0; i < samples; ++i) ms.push_back(clock.elapsed_ms(body, calls) / calls);
    all.insert(all.end(), ms.begin(), ms.end());
    return median(std::move(ms));
  }
};

// Concludes from the rounds so far.
void conclude(Paired& result) {
  result.ratio = median(result.ratios);
  const auto interval = median_interval_in_order(result.ratios, 0.99);
  result.interval = interval.value_or(Interval{0, std::numeric_limits<double>::infinity()});
}

void decide(Paired& result, const PairedOptions& options) {
  result.verdict = verdict_of(result.interval, options.same);
  if (const auto drift = drift_of(result.ratios); drift && drift->named) {
    result.verdict = Verdict::unsure;
    result.why = concat("the ratio changed by ", std::round(1000 * drift->change) / 10, " % while it was measured");
    return;
  }
  if (result.verdict != Verdict::unsure) return;
  result.why = std::isfinite(result.interval.high) ? "the times do not tell the two apart"
                                                   : "the rounds are too few, or too much alike their neighbours";
  const double rounds = double(result.ratios.size()) * samples_factor(result.ratio, result.interval, options.same);
  result.rounds_needed = int(std::min(std::ceil(rounds), 1e9));
}

}  // namespace

double samples_factor(double ratio, const Interval& interval, double same) {
  const double off = std::abs(ratio - 1), needed = std::max(off, same - off),
               width = (interval.high - interval.low) / 2;
  return std::isfinite(width) ? std::max(1.0, width * width / (needed * needed)) : 1e9;
}

Paired paired_of(const std::vector<double>& a_ms, const std::vector<double>& b_ms, const PairedOptions& options) {
  Paired result;
  result.a_ms = a_ms;
  result.b_ms = b_ms;
  for (size_t i = 0; i < a_ms.size(); ++i) result.ratios.push_back(a_ms[i] / b_ms.at(i));
  conclude(result);
  decide(result, options);
  return result;
}

Turns measure_turns(const std::vector<std::function<void()>>& bodies, const PairedOptions& options, Clock& clock) {
  std::vector<Side> sides;
  Turns turns;
  for (const auto& body : bodies) {
    sides.push_back({body});
    turns.first_run_ms.push_back(clock.elapsed_ms(body, 1));
  }
  turns.ms.resize(bodies.size());
  for (int i = 0; i < 4; ++i)  // the first time is cold
    for (Side& side : sides) side.prepare(options.turn_ms, clock);
  std::vector<Paired>& results = turns.beside_first;
  results.resize(bodies.size() - 1);
  const double start = clock.now_ms();
  for (int round = 0; round < options.max_rounds; ++round) {
    const double seconds = (clock.now_ms() - start) / 1e3;
    if (options.progress) options.progress(round, seconds);
    const bool narrow =
        round >= options.min_rounds && std::all_of(results.begin(), results.end(), [&](const Paired& r) {
          return r.interval.high - r.interval.low < 2 * options.relative_error * r.ratio;
        });
    if (narrow || (round >= options.min_rounds && seconds >= options.max_seconds)) break;
    std::vector<double> there, back;
    for (size_t i = 0; i < sides.size(); ++i) there.push_back(sides[i].turn(clock, turns.ms[i]));
    for (size_t i = sides.size(); i-- > 0;) back.insert(back.begin(), sides[i].turn(clock, turns.ms[i]));
    for (size_t i = 0; i < results.size(); ++i) {
      Paired& result = results[i];
      result.a_ms.insert(result.a_ms.end(), {there[0], back[0]});
      result.b_ms.insert(result.b_ms.end(), {there[i + 1], back[i + 1]});
      result.ratios.push_back((there[0] + back[0]) / (there[i + 1] + back[i + 1]));
      if (round + 1 >= options.min_rounds) conclude(result);
    }
  }
  for (Paired& result : results) {
    result.seconds = (clock.now_ms() - start) / 1e3;
    decide(result, options);
  }
  return turns;
}

Paired measure_paired(const std::function<void()>& a, const std::function<void()>& b, const PairedOptions& options,
                      Clock& clock) {
  return measure_turns({a, b}, options, clock).beside_first.at(0);
}

}  // namespace temper
