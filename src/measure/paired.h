// SPDX-License-Identifier: Apache-2.0
// Bodies timed in turns, so that whatever slows the machine for a while slows all.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/clock.h"
#include "measure/statistics.h"

namespace temper {

struct PairedOptions {
  double max_seconds = 6;  // of all turns; min_rounds are taken even past it
  double turn_ms = 20;     // a turn makes as many calls as fit, one at least
  int min_rounds = 12, max_rounds = 2000;
  double relative_error = 0.002;  // of the ratio: half the width of its interval, over the ratio; ends the rounds
  double same = 0.01;             // ratios within 1 / (1 + same) .. 1 + same are no difference worth a name
  std::function<void(int rounds, double seconds)> progress;
};

// The verdict on the second body, beside the first one.
enum class Verdict { faster, slower, same, unsure };
std::string_view name_of(Verdict verdict);  // "FASTER"

struct Paired {
  std::vector<double> a_ms, b_ms;  // per call, the median of a turn; two turns a round, in the order taken
  std::vector<double> ratios;      // a round's time of a over that of b
  double ratio = 1;                // their median: above 1 the second is that many times as fast
  Interval interval;               // 99 %, from order statistics of the rounds (measure/statistics.h)
  Verdict verdict = Verdict::unsure;
  std::string why;        // where it is unsure: because of what
  int rounds_needed = 0;  // where more rounds would decide: how many in all, about
  double seconds = 0;     // that the rounds took, those of all bodies
};

struct Turns {
  std::vector<std::vector<double>>
      ms;  // by body: every timed call in the order taken, or means over calls too short to be timed
  std::vector<double> first_run_ms;  // by body: its first call of all, apart
  std::vector<Paired> beside_first;  // one for each body but the first, which it is compared with
};

// Rounds in which every body has two turns, a b c c b a, so that a drift of the machine's speed cancels within a round.
// Each turn begins with one call that is not timed: it brings back what the others drove from the caches. Verdict: SAME
// where the whole interval lies within `same` of 1; otherwise FASTER or SLOWER where it leaves out 1; otherwise UNSURE.
// UNSURE also where the ratio drifts over the rounds: then something else than the two is being measured. What a body
// throws passes through.
Turns measure_turns(const std::vector<std::function<void()>>& bodies, const PairedOptions& options = {},
                    Clock& clock = host_clock());
Paired measure_paired(const std::function<void()>& a, const std::function<void()>& b, const PairedOptions& options = {},
                      Clock& clock = host_clock());

// The verdict on rounds that were taken elsewhere: by round, a call's milliseconds of each body; at least one round.
Paired paired_of(const std::vector<double>& a_ms, const std::vector<double>& b_ms, const PairedOptions& options = {});

Verdict verdict_of(const Interval& interval, double same);

// How many times as many samples would make the interval narrow enough to leave out 1, or to lie within `same` of it,
// whichever needs fewer: an interval gets narrower with the root of their number.
double samples_factor(double ratio, const Interval& interval, double same);

}  // namespace temper
