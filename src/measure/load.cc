// SPDX-License-Identifier: Apache-2.0
#include "measure/load.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <future>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "measure/statistics.h"

namespace temper {

namespace {

using SteadyClock = std::chrono::steady_clock;

double ms_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// One thread a body. The first exception ends the others (`stop`) and passes to the caller when all have ended. None
// begins before all are there: Error{machine} where the system has no room for them.
template <class Work>
void on_threads(size_t count, std::atomic<bool>& stop, const Work& work, const std::function<void()>& meanwhile) {
  std::exception_ptr failed;
  std::mutex failing;
  std::atomic<size_t> running{count};
  std::promise<bool> all_there;
  const std::shared_future<bool> begin = all_there.get_future().share();
  std::vector<std::thread> threads;
  const auto start = [&](size_t i) {
    threads.emplace_back([&, i] {
      try {
        if (begin.get()) work(i);
      } catch (...) {
        const std::lock_guard lock(failing);
        if (!failed) failed = std::current_exception();
        stop = true;
      }
      --running;
    });
  };
  try {
    for (size_t i = 0; i < count; ++i) start(i);
  } catch (const std::system_error& error) {
    all_there.set_value(false);
    for (std::thread& thread : threads) thread.join();
    fail(ErrorKind::machine, "only ", threads.size(), " of ", count,
         " threads could be started: ", std::string_view(error.what()));
  }
  all_there.set_value(true);
  while (running > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!stop) meanwhile();
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
}

// Begins as soon as every stream came here; streams that failed before do not come, but leave.
struct Gate {
  explicit Gate(size_t count) : barrier(std::ptrdiff_t(count)) {}
  std::barrier<> barrier;
  void pass() { barrier.arrive_and_wait(); }
  void leave() { barrier.arrive_and_drop(); }
};

struct WarmUp {
  double first_ms = 0;
  int runs = 0;
  bool stable = true;
};

// Warms up as `measure` does; the streams do it side by side, since that is how they run then.
WarmUp warm_up(const std::function<void()>& body, int fixed, double limit_s) {
  Samples warm;
  TimerOptions options;
  options.warmup = fixed;
  options.max_seconds = limit_s;
  options.iterations = 1;
  warm = measure(body, options);
  return {warm.first_run_ms, warm.warmup_runs + 1, warm.warmup_stable};
}

// Runs `work` on every stream after all of them are warm.
template <class Work>
void warm_then(const std::vector<std::function<void()>>& bodies, int warmup, double seconds, Samples& samples,
               std::atomic<bool>& stop, const Work& work, const std::function<void()>& meanwhile) {
  if (bodies.empty()) fail(ErrorKind::usage, "a load needs at least one stream");
  Gate gate(bodies.size());
  std::mutex mutex;
  on_threads(
      bodies.size(), stop,
      [&](size_t i) {
        try {
          const WarmUp warm = warm_up(bodies[i], warmup, seconds);
          const std::lock_guard lock(mutex);
          samples.first_run_ms = std::max(samples.first_run_ms, warm.first_ms);
          samples.warmup_runs += warm.runs;
          samples.warmup_stable = samples.warmup_stable && warm.stable;
        } catch (...) {
          gate.leave();
          throw;
        }
        gate.pass();
        work(i);
      },
      meanwhile);
}

}  // namespace

Samples measure_streams(const std::vector<std::function<void()>>& bodies, const TimerOptions& options) {
  if (options.iterations == 0 || options.iterations < -1 || options.warmup < -1)
    fail(ErrorKind::usage, "a load needs at least one iteration and no negative warm-up");
  struct Run {
    SteadyClock::time_point start, end;
  };
  Samples samples;
  samples.fixed_counts = options.warmup >= 0 || options.iterations > 0;
  const size_t most = size_t(options.iterations > 0 ? options.iterations : std::max(options.max_samples, 1));
  std::vector<Run> runs;
  std::mutex mutex;
  std::atomic<bool> stop{false};
  size_t next_check = size_t(std::max(options.min_samples, 1)) * bodies.size();
  double shown = 0;
  auto copy_times = [&] {
    std::vector<double> ms;
    const std::lock_guard lock(mutex);
    for (const Run& run : runs) ms.push_back(ms_between(run.start, run.end));
    return ms;
  };
  const auto stream = [&](size_t i) {
    while (!stop) {
      const auto start = SteadyClock::now();
      bodies[i]();
      const auto end = SteadyClock::now();
      const std::lock_guard lock(mutex);
      // The streams that end last would otherwise run with less beside them than the rest.
      if (stop) return;
      runs.push_back({start, end});
      if (runs.size() >= most) {
        samples.stop = options.iterations > 0 ? Stop::fixed_count : Stop::sample_limit;
        stop = true;
      }
    }
  };
  const auto watch = [&] {
    size_t count = 0;
    double seconds = 0;
    {
      const std::lock_guard lock(mutex);
      count = runs.size();
      if (count > 0) seconds = ms_between(runs[0].start, SteadyClock::now()) / 1e3;
    }
    if (options.progress && seconds - shown >= 0.2) {
      options.progress(int(count), seconds);
      shown = seconds;
    }
    if (options.iterations > 0 || count < next_check) return;
    if (seconds >= options.max_seconds) {
      const std::lock_guard lock(mutex);
      if (stop.exchange(true)) return;
      samples.stop = Stop::time_up;
    } else if (seconds >= options.min_seconds) {
      next_check = count + count / 10 + 1;
      if (relative_error_of_median(copy_times()) > options.relative_error) return;
      const std::lock_guard lock(mutex);
      if (stop.exchange(true)) return;
      samples.stop = Stop::error_reached;
    }
  };
  warm_then(bodies, options.warmup, options.max_seconds, samples, stop, stream, watch);
  auto first = runs.at(0).start, last = runs[0].end;
  for (const Run& run : runs) {
    samples.ms.push_back(ms_between(run.start, run.end));
    first = std::min(first, run.start);
    last = std::max(last, run.end);
  }
  samples.runs_per_s = double(runs.size()) * 1e3 / ms_between(first, last);
  samples.relative_error = relative_error_of_median(samples.ms);
  return samples;
}

Samples measure_open(const std::vector<std::function<void()>>& bodies, const OpenOptions& options) {
  if (!(options.rate_per_s > 0 && std::isfinite(options.rate_per_s)))
    fail(ErrorKind::usage, "a request rate is above 0, not ", options.rate_per_s);
  constexpr double kMostRequests = 5e6;
  if (options.rate_per_s * options.seconds > kMostRequests)
    fail(ErrorKind::usage, options.rate_per_s, " requests a second for ", options.seconds, " s are more than ",
         kMostRequests, " in all; measure for a shorter time");
  // Arrivals in ms from the start. The inverse of the distribution by hand: the standard library's differs between
  // makes.
  std::mt19937_64 random(options.seed);
  std::vector<double> arrivals;
  for (double at = 0;;) {
    const double uniform = (double(random() >> 11) + 0.5) * 0x1p-53;
    at += -std::log(uniform) * 1e3 / options.rate_per_s;
    if (at > options.seconds * 1e3 && !arrivals.empty()) break;
    arrivals.push_back(at);
  }
  Samples samples;
  samples.stop = Stop::time_up;
  samples.fixed_counts = options.warmup >= 0;
  samples.requests_per_s = options.rate_per_s;
  samples.arrivals_per_s = double(arrivals.size()) / options.seconds;
  std::vector<double> done(arrivals.size(), -1);  // ms from the start; each element is one thread's
  std::atomic<size_t> next{0}, served{0};
  std::atomic<bool> stop{false};
  double shown = 0;
  std::once_flag begun;
  SteadyClock::time_point start;
  const auto stream = [&](size_t i) {
    std::call_once(begun, [&] { start = SteadyClock::now(); });
    while (!stop) {
      const size_t request = next++;
      if (request >= arrivals.size()) return;
      const auto due = start + std::chrono::duration_cast<SteadyClock::duration>(
                                   std::chrono::duration<double, std::milli>(arrivals[request]));
      // Waking up takes the kernel some 50 us, which are not the model's: sleep until shortly before, then look at the
      // clock.
      std::this_thread::sleep_until(due - std::chrono::microseconds(200));
      while (SteadyClock::now() < due) std::this_thread::yield();
      if (ms_between(start, SteadyClock::now()) > 2e3 * options.seconds) return;
      bodies[i]();
      done[request] = ms_between(start, SteadyClock::now());
      ++served;
    }
  };
  warm_then(bodies, options.warmup, options.seconds, samples, stop, stream, [&] {
    const double seconds = double(served) / options.rate_per_s;
    if (!options.progress || seconds - shown < 0.2) return;
    options.progress(int(served), seconds);
    shown = seconds;
  });
  double last = 0;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    if (done[i] < 0) {
      ++samples.unserved;
      continue;
    }
    samples.ms.push_back(done[i] - arrivals[i]);
    last = std::max(last, done[i]);
  }
  if (samples.ms.empty()) fail(ErrorKind::check_failed, "no request was served within ", 2 * options.seconds, " s");
  samples.runs_per_s = double(samples.ms.size()) * 1e3 / std::max(last, options.seconds * 1e3);
  samples.relative_error = relative_error_of_median(samples.ms);
  return samples;
}

}  // namespace temper
