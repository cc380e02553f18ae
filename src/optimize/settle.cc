// SPDX-License-Identifier: Apache-2.0
#include "optimize/settle.h"

#include <cmath>

#include "base/log.h"
#include "optimize/in_context.h"
#include "optimize/whole.h"
#include "plan/nearest.h"

namespace temper {

namespace {

double rounded(double ms) { return std::round(1000 * ms) / 1000; }

class Settler {
 public:
  Settler(Plan plan, const Settling& s)
      : s_(s), on_gpu_(s.backend.queue), watch_(*s.instruments.load), plan_(std::move(plan)) {
    tell_words(s_.progress, "timing the whole plan");
    times_ = measure(plan_);
  }

  Plan run() {
    if (contradicts(plan_, on_gpu_) && is_quiet()) {
      log(LogLevel::debug, text());
      // Of two looks at the whole the one that was disturbed less.
      if (PlanTimes again = measure_again(); again.whole.ms < times_.whole.ms) {
        times_ = std::move(again);
        plan_.whole = times_.whole;
      }
    }
    if (contradicts(plan_, on_gpu_) && is_quiet()) {
      if (!is_over() && doubt_steps()) take_if_better(s_.choose());
      if (contradicts(plan_, on_gpu_) && !on_gpu_ && is_one_piece() && !is_over()) choose_in_context();
      if (contradicts(plan_, on_gpu_) && !on_gpu_) use_times_in_plan(plan_, times_);
      if (contradicts(plan_, on_gpu_)) s_.file.info.notes.push_back(text() + ": measured again, this stayed");
      if (!on_gpu_ && is_one_piece() && !is_over())
        remember_plan(s_.graph, plan_, device(), s_.cache, plan_.whole.load);
    }
    return std::move(plan_);
  }

 private:
  const Settling& s_;
  const bool on_gpu_;
  const LoadWatch watch_;
  Plan plan_;
  std::shared_ptr<const Engine> engine_;  // with the plan that was measured last
  PlanTimes times_;

  const Device& device() const { return *s_.file.device; }
  bool is_over() const { return s_.options.search_is_over(); }
  PlanTimes measure(Plan& plan) {
    PlanFile file = s_.file;
    file.plans = {std::make_shared<const Plan>(plan)};
    engine_ = std::make_shared<const Engine>(std::move(file));
    PlanTimes times = measure_again();
    plan.whole = times.whole;
    fill_untimed(plan, times);
    return times;
  }
  PlanTimes measure_again() const { return time_whole(engine_, s_.shapes, s_.instruments, s_.tuner.last_load()); }
  // Among others nothing measured now would be better than what was.
  bool is_quiet() {
    if (on_gpu_) return true;
    if (plan_.whole.load < 0) plan_.whole.load = watch_.load_after_waiting().value_or(-1);
    return plan_.whole.load >= 0 && plan_.whole.load < kLoadThatCounts;
  }
  bool is_one_piece() const {
    for (const Segment& segment : plan_.segments)
      if (segment.slices > 1) return false;
    return true;
  }
  std::string text() const {
    return concat("the whole plan takes ", rounded(plan_.whole.ms), " ms, and its steps, timed one by one, ",
                  rounded(plan_.steps_ms()), " in all");
  }

  bool doubt_steps() {
    bool any = false;
    for (const PlanStep* step : contradicting_steps(plan_, times_))
      if (!step->is_reorder()) any |= s_.tuner.doubt(step->problem.text());
    if (any) tell_words(s_.progress, "timing again what contradicts the whole plan");
    return any;
  }

  // The faster of two in turns; of the same kernels what their times are now.
  void take_if_better(Plan other) {
    PlanTimes times = measure(other);
    if (other.whole.load < 0) other.whole.load = plan_.whole.load;
    Workbench bench(device());
    if (!same_kernels(other, plan_) && !is_faster(other, plan_, bench, device(), *s_.instruments.clock)) return;
    plan_ = std::move(other);
    times_ = std::move(times);
  }

  void choose_in_context() {
    StepThreads as_now;
    as_now.know(plan_);
    PlanOptions options = s_.options;
    options.threads_of = [&](const Problem& problem) { return as_now.of(problem); };
    Plan other = plan_on_host_in_context(s_.graph, s_.backend, device(), options, s_.cache, plan_.whole.load,
                                         std::max(0.5, 0.1 * s_.seconds), s_.progress);
    if (!same_kernels(other, plan_)) return take_if_better(std::move(other));
    // What the whole takes is known; the times of its steps are new.
    other.whole = plan_.whole;
    fill_untimed(other, times_);
    plan_ = std::move(other);
  }
};

}  // namespace

Plan settle_plan(Plan plan, const Settling& s) { return Settler(std::move(plan), s).run(); }

}  // namespace temper
