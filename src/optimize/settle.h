// SPDX-License-Identifier: Apache-2.0
// The end of a build: the whole plan is measured, and what contradicts it is measured again.
#pragma once
#include "base/progress.h"
#include "plan/options.h"
#include "plan/plan.h"
#include "runtime/engine.h"
#include "tune/tuner.h"

namespace temper {

struct Settling {
  PlanFile& file;      // of the engine in the making: the plan is timed in an engine like it, notes go into it
  const Graph& graph;  // of concrete shapes
  std::vector<Dims> shapes;
  const Backend& backend;
  const PlanOptions& options;
  Tuner& tuner;
  TimingCache& cache;
  Instruments instruments;
  std::function<Plan()> choose;  // the plan by the tuner's times
  double seconds = 0;            // that the build has taken so far
  Progress progress;
};

// The plan with the time of the whole and of every step. Where these contradict each other and the
// machine is quiet: times of the steps in question that are from the timing cache are taken again and the plan is
// chosen again; if it stays, on the host, the best candidates are timed within plans, during a tenth of the time that
// the build took so far or half a second, whichever is longer; of all these plans the one that is faster in turns is
// taken; where the search has taken its time (TimeSource::is_over) none of it. What stays is a note, and the steps'
// times are then those within the plan.
Plan settle_plan(Plan plan, const Settling& s);

}  // namespace temper
