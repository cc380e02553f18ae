// SPDX-License-Identifier: Apache-2.0
// Times a whole plan once at the end of a build, and checks that its steps' times agree with that.
#pragma once
#include "measure/instruments.h"
#include "runtime/engine.h"

namespace temper {

struct PlanTimes {
  WholeTime whole;
  std::vector<std::vector<double>> steps;  // by segment and step: medians within the plan, ms
};

// Runs the engine's plan for these shapes as `bench` does: a session of its own, seeded random numbers, the engine's
// threads, one capture on a GPU. About half a second, or six runs; of a plan of seconds one or two. Then step by
// step, a tenth of a second or three runs. `load`: what is stored where half a second was not enough to tell what
// others did.
PlanTimes time_whole(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes,
                     const Instruments& instruments, std::optional<double> load);

// Steps that nobody timed, those on the reference and changes of layout, get their times within the plan.
void fill_untimed(Plan& plan, const PlanTimes& times);

// Whether the sum of the steps' times says something else than the whole, by more than 15 %. On a GPU only where the
// whole takes longer: there steps timed one by one take longer than in a capture, where they also overlap.
constexpr double kContradiction = 0.15;
bool contradicts(const Plan& plan, bool on_gpu);
// Steps whose times within the plan are others, by as much, and so that it matters for the whole; the worst first.
std::vector<const PlanStep*> contradicting_steps(const Plan& plan, const PlanTimes& times);
void use_times_in_plan(Plan& plan, const PlanTimes& times);

}  // namespace temper
