// SPDX-License-Identifier: Apache-2.0
#include "measure/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "measure/statistics.h"

namespace temper {

std::string_view name_of(Stop stop) {
  switch (stop) {
    case Stop::error_reached: return "relative error reached";
    case Stop::time_up: return "time up";
    case Stop::sample_limit: return "sample limit reached";
    case Stop::fixed_count: return "fixed count";
  }
  __builtin_unreachable();
}

namespace {

constexpr int kWindow = 4;
constexpr double kStillWarming = 0.99;

bool is_stable(const std::vector<double>& runs) {
  if (runs.size() < 2 * kWindow) return false;
  return median({runs.end() - kWindow, runs.end()}) >=
         kStillWarming * median({runs.end() - 2 * kWindow, runs.end() - kWindow});
}

// The median of several readings: the least one can be zero where the clock ticks coarsely.
double overhead_ms(Clock& clock) {
  std::vector<double> readings(33);
  for (double& reading : readings) {
    const double start = clock.now_ms();
    reading = clock.now_ms() - start;
  }
  return median(readings);
}

int calls_for(double call_ms) {
  if (call_ms >= kShortMs) return 1;
  return int(std::ceil(kShortMs / std::max(call_ms, kShortMs / 10000)));
}

// A call too short to be timed by itself is timed in a group.
double warmup_run(const std::function<void()>& body, Clock& clock, int& calls, int& runs) {
  const double ms = clock.elapsed_ms(body, calls) / calls;
  runs += calls;
  calls = calls_for(ms);
  return ms;
}

void warm_up(const std::function<void()>& body, const TimerOptions& options, Clock& clock, Samples& samples) {
  if (options.warmup >= 0) {
    for (; samples.warmup_runs < options.warmup; ++samples.warmup_runs) body();
    return;
  }
  const bool fixed_time = options.warmup_seconds >= 0;
  const double start = clock.now_ms(), limit_ms = 1e3 * (fixed_time ? options.warmup_seconds : options.max_seconds / 4);
  std::vector<double> runs;
  int calls = 1;
  samples.warmup_stable = false;
  while (fixed_time || !samples.warmup_stable) {
    runs.push_back(warmup_run(body, clock, calls, samples.warmup_runs));
    samples.warmup_stable = is_stable(runs);
    if (clock.now_ms() - start >= limit_ms) break;
  }
}

}  // namespace

double relative_error_of_median(const std::vector<double>& values) {
  const auto interval = median_interval_in_order(values);
  const double middle = median(values);
  if (!interval || middle <= 0) return std::numeric_limits<double>::infinity();
  return (interval->high - interval->low) / 2 / middle;
}

Samples measure(const std::function<void()>& body, const TimerOptions& options, Clock& clock) {
  if (options.iterations == 0 || options.iterations < -1 || options.warmup < -1)
    fail(ErrorKind::usage, "a timer needs at least one iteration and no negative warm-up (", options.warmup, ", ",
         options.iterations, ")");
  Samples samples;
  samples.fixed_counts = options.warmup >= 0 || options.iterations >= 0;
  samples.timer_overhead_ms = overhead_ms(clock);
  samples.first_run_ms = clock.elapsed_ms(body, 1);
  if (options.progress) options.progress(0, 0);
  warm_up(body, options, clock, samples);

  const bool fixed = options.iterations > 0;
  if (!fixed) {
    // Two runs decide on grouping: one alone may have been interrupted.
    const double once = clock.elapsed_ms(body, 1), again = clock.elapsed_ms(body, 1);
    samples.warmup_runs += 2;
    if (!options.single_calls) samples.calls_per_sample = calls_for(std::min(once, again));
  }
  const size_t least = fixed ? size_t(options.iterations) : size_t(std::max(options.min_samples, 1));
  const size_t most = fixed ? least : std::max(least, size_t(std::max(options.max_samples, 1)));
  const double start = clock.now_ms();
  double last_progress = start;
  size_t next_check = least;
  const auto idle = [&] {
    if (options.idle_ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.idle_ms));
  };
  for (;; idle()) {
    samples.ms.push_back(clock.elapsed_ms(body, samples.calls_per_sample) / samples.calls_per_sample);
    const size_t count = samples.ms.size();
    const double now = clock.now_ms(), seconds = (now - start) / 1e3;
    if (options.progress && now - last_progress >= 200) {
      options.progress(int(count), seconds);
      last_progress = now;
    }
    if (count >= most) {
      samples.stop = fixed ? Stop::fixed_count : Stop::sample_limit;
      break;
    }
    if (fixed || count < least) continue;
    if (seconds >= options.max_seconds) {
      samples.stop = Stop::time_up;
      break;
    }
    // Looked at when the number of samples has grown by a tenth: sorting at every sample would be quadratic.
    if (count >= next_check && seconds >= options.min_seconds) {
      next_check = count + count / 10 + 1;
      if (relative_error_of_median(samples.ms) <= options.relative_error) {
        samples.stop = Stop::error_reached;
        break;
      }
    }
  }
  samples.relative_error = relative_error_of_median(samples.ms);
  if (options.idle_ms > 0) {
    const double seconds = (clock.now_ms() - start) / 1e3;
    samples.runs_per_s = double(samples.ms.size()) * samples.calls_per_sample / seconds;
  }
  return samples;
}

double quick_time_ms(const std::function<void()>& body, const QuickOptions& options, Clock& clock) {
  const double start = clock.now_ms();
  double best = std::numeric_limits<double>::infinity();
  int calls = 1, without_gain = 0;
  for (int run = 1;; ++run) {
    if (options.before) options.before();
    const double ms = clock.elapsed_ms(body, calls) / calls;
    without_gain = ms < 0.99 * best ? 0 : without_gain + 1;
    best = std::min(best, ms);
    if (run >= options.max_runs || without_gain >= 4 || clock.now_ms() - start >= options.max_ms) return best;
    if (best > 10 * options.best_ms || (run >= 2 && best > options.give_up * options.best_ms)) return best;
    if (!options.before) calls = calls_for(best);
  }
}

}  // namespace temper
