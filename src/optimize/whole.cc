// SPDX-License-Identifier: Apache-2.0
#include "optimize/whole.h"

#include <algorithm>
#include <cmath>

#include "data/bench_session.h"
#include "measure/statistics.h"
#include "measure/timer.h"

namespace temper {

namespace {

constexpr double kLongRunMs = 500;  // six runs of it, for an interval, are too many
constexpr double kSeconds = 0.5, kStepsMs = 100;

}  // namespace

PlanTimes time_whole(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes,
                     const Instruments& instruments, std::optional<double> load) {
  PlanTimes times;
  BenchSession session(engine, shapes);
  DeviceClock device_clock(session, true);
  Clock& clock = engine->device().gpu ? device_clock : *instruments.clock;
  const LoadWatch watch(*instruments.load);
  const double first_ms = clock.elapsed_ms([&] { session.run(); }, 1);
  const bool is_long = first_ms > kLongRunMs;
  // What disturbs a CPU comes and goes within tenths of a second; a GPU's own clock knows nothing of it.
  TimerOptions timer{.max_seconds = kSeconds, .relative_error = 0.01};
  if (engine->device().gpu) timer.max_samples = 60;
  // Of a long run two: the first may have found cold memory.
  const Samples samples =
      measure([&] { session.run(); }, is_long ? TimerOptions{.warmup = 0, .iterations = 1} : timer, clock);
  std::vector<double> ms = samples.ms;
  if (is_long) ms.push_back(samples.first_run_ms);
  times.whole.ms = is_long ? *std::min_element(ms.begin(), ms.end()) : median(ms);
  if (const auto interval = median_interval_in_order(ms))
    times.whole.low = interval->low, times.whole.high = interval->high;
  times.whole.runs = int64_t(ms.size()) * samples.calls_per_sample;
  if (const auto known = watch.load()) load = known;
  times.whole.load = load.value_or(-1);

  const int runs = is_long ? 1 : int(std::clamp(kStepsMs / std::max(times.whole.ms, 1e-3), 3.0, 15.0));
  std::vector<std::vector<std::vector<double>>> taken;  // by segment and step, a time a run
  for (int run = 0; run < runs; ++run) session.sample_steps(taken);
  for (const auto& segment : taken) {
    times.steps.emplace_back();
    for (const auto& step : segment) times.steps.back().push_back(median(step));
  }
  return times;
}

void fill_untimed(Plan& plan, const PlanTimes& times) {
  for (size_t s = 0; s < plan.segments.size(); ++s)
    for (size_t i = 0; i < plan.segments[s].steps.size(); ++i)
      if (double& ms = plan.segments[s].steps[i].ms; ms < 0) ms = times.steps.at(s).at(i);
}

bool contradicts(const Plan& plan, bool on_gpu) {
  const double whole = plan.whole.ms, steps = plan.steps_ms();
  // What a run takes beside its steps is no contradiction.
  constexpr double kRunMs = 0.02;
  if (!plan.whole.is_measured() || plan.untimed_steps() > 0 || std::abs(whole - steps) < kRunMs) return false;
  return whole > steps * (1 + kContradiction) || (!on_gpu && whole < steps * (1 - kContradiction));
}

std::vector<const PlanStep*> contradicting_steps(const Plan& plan, const PlanTimes& times) {
  constexpr double kMatters = 0.01;
  std::vector<std::pair<double, const PlanStep*>> found;
  for (size_t s = 0; s < plan.segments.size(); ++s)
    for (size_t i = 0; i < plan.segments[s].steps.size(); ++i) {
      const PlanStep& step = plan.segments[s].steps[i];
      const double off = std::abs(times.steps.at(s).at(i) - step.ms);
      if (off > kContradiction * step.ms && off > kMatters * plan.whole.ms) found.emplace_back(-off, &step);
    }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const PlanStep*> steps;
  for (const auto& [off, step] : found) steps.push_back(step);
  return steps;
}

void use_times_in_plan(Plan& plan, const PlanTimes& times) {
  for (size_t s = 0; s < plan.segments.size(); ++s)
    for (size_t i = 0; i < plan.segments[s].steps.size(); ++i) plan.segments[s].steps[i].ms = times.steps.at(s).at(i);
}

}  // namespace temper
