// SPDX-License-Identifier: Apache-2.0
// The one timer: tuning, `bench` and everything else that reports a time use it.
#pragma once
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "measure/clock.h"

namespace temper {

struct TimerOptions {
  double max_seconds = 3;         // of sampling, after the warm-up; min_samples are taken even past it
  double min_seconds = 0.2;       // the rule on the error may not stop earlier: short bursts miss what the machine does
  double relative_error = 0.005;  // of the median: half the width of its 95 % interval, over the median
  int min_samples = 6;            // six is the least number of samples that has a 95 % interval of the median
  int max_samples = 100000;
  int warmup = -1;             // -1: until stable, for at most a quarter of max_seconds
  int iterations = -1;         // -1: the stopping rule; otherwise exactly this many samples of one call each
  double warmup_seconds = -1;  // instead of `warmup`: for so long, however stable; -1: not
  bool single_calls = false;   // a sample is one call however short it is: the clock's overhead is in all of them
  double idle_ms = 0;          // between two samples nothing runs for so long; Samples::runs_per_s counts it
  // Called between samples, not more often than five times a second. The cold run has count 0.
  std::function<void(int samples, double seconds)> progress;
};

enum class Stop { error_reached, time_up, sample_limit, fixed_count };
std::string_view name_of(Stop stop);  // "relative error reached", ...

struct Samples {
  double first_run_ms = 0;       // the first call of all, apart from the rest
  int warmup_runs = 0;           // calls between the first and the samples
  bool warmup_stable = true;     // false: the time for warming up ended before the runs stopped getting faster
  std::vector<double> ms;        // per call, in the order taken
  int calls_per_sample = 1;      // more than one where a call takes less than kShortMs: ms holds means over them
  double timer_overhead_ms = 0;  // of reading the clock twice; contained once in every sample, not subtracted
  bool fixed_counts = false;     // warmup or iterations were given
  Stop stop = Stop::time_up;
  double relative_error = std::numeric_limits<double>::infinity();  // as reached; infinite below six samples
  // These belong to load patterns in which runs do not follow one another (measure/load.h):
  std::optional<double> runs_per_s;      // as many as were done, over the time that took
  std::optional<double> requests_per_s;  // as asked for
  std::optional<double> arrivals_per_s;  // as chance made of it
  int64_t unserved = 0;                  // requests given up
};

// Half the width of the median's 95 % interval over the median, for values in the order taken (measure/statistics.h);
// infinite where there is no interval.
double relative_error_of_median(const std::vector<double>& values);

// A call shorter than this is timed in groups that take at least as long, so that reading the clock stays below 1 %.
constexpr double kShortMs = 0.02;

// One cold run apart; warm-up until the median of the last four runs is no longer more than 1 % below the median of the
// four before them (warming up makes runs faster, never slower; noise is left to the samples); then samples until the
// rule of the options holds. What `body` throws passes through.
Samples measure(const std::function<void()>& body, const TimerOptions& options = {}, Clock& clock = host_clock());

struct QuickOptions {
  double best_ms = std::numeric_limits<double>::infinity();  // of the candidates seen so far
  double give_up = 2;   // stop early when two runs are both this many times slower than best_ms
  double max_ms = 100;  // of all runs together; one run is always made
  int max_runs = 12;
  std::function<void()> before;  // called untimed before each run (to empty a cache, say); then every run is one call
};

// For choosing among candidates: the least time per call over a few runs. The minimum is what other load disturbs
// least. Ends after max_runs runs or max_ms, when four runs in a row brought less than 1 %, or when the candidate is
// out of the race: one run ten times slower than best_ms, or two runs `give_up` times slower.
double quick_time_ms(const std::function<void()>& body, const QuickOptions& options = {}, Clock& clock = host_clock());

}  // namespace temper
