// SPDX-License-Identifier: Apache-2.0
// On how many threads each step of a plan runs, by times of whole plans. A step by itself, again and again, tells too
// little: its workers are awake and its inputs lie where they were, while in a plan a step may have to wake them, and
// reads what the steps in front of it left in the caches of other cores.
#pragma once
#include <functional>

#include "base/progress.h"
#include "plan/options.h"
#include "plan/plan.h"

namespace temper {

struct TimedPlan {
  double ms = 0;                             // of one run
  std::vector<std::vector<double>> step_ms;  // by segment and step, with its opening and joining of the workers
};
// Times plans with the same inputs and outputs, in turns.
using PlanTimer = std::function<std::vector<TimedPlan>(const std::vector<const Plan*>&)>;
PlanTimer timer_of_plans(const Device& device);

struct ThreadedPlan {
  Plan plan;
  ThreadsOf threads_of;  // empty: all steps run on all threads
};
// `all` is the plan by `options` with every step on all threads. Steps that take so little that opening and joining may
// decide are tried on one thread, and on machines with many on a few powers of four; the fastest plan found is taken,
// and of plans as fast as each other (to 1 %) the one that needs the other cores least. Measures nothing where all
// threads are one or every step would be the same on one, and one plan alone where small steps do not matter.
ThreadedPlan choose_step_threads(const Graph& graph, const Backend& backend, const Device& device,
                                 const PlanOptions& options, Plan all, const PlanTimer& time, const Progress& progress);

}  // namespace temper
