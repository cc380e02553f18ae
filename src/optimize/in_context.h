// SPDX-License-Identifier: Apache-2.0
// Candidates timed where they will run. Timed alone, again and again, a kernel finds its weights in the cache; in a
// model most find them in memory, and some kernels bear that better than others.
#pragma once
#include <functional>
#include <optional>

#include "base/progress.h"
#include "measure/instruments.h"
#include "optimize/plan_buffers.h"
#include "plan/options.h"
#include "plan/plan.h"
#include "tune/cache.h"

namespace temper {

// For devices with memory of their own. Takes the few best candidates of each problem by options.times, in the layouts
// of the plan that those times give, runs whole plans made of the first, the second, ... of each and keeps the time of
// every step; then plans by these times. `cache` remembers them, and where it has all, nothing is measured. Of that
// plan and the one by options.times alone the faster is returned, as measured in turns.
Plan plan_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                     TimingCache& cache, Workbench& bench, const Progress& progress);

// The same without the last comparison: for the times of its steps.
Plan plan_by_times_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                              TimingCache& cache, Workbench& bench, const Progress& progress);

// Whether both launch the same kernels, in the same order.
bool same_kernels(const Plan& a, const Plan& b);

// Compares two plans with the same inputs and outputs: as measured in turns; of plans for a GPU whose whole times were
// measured before, one 1.2 times the other, by those.
bool is_faster(const Plan& plan, const Plan& other, Workbench& bench, const Device& device,
               Clock& clock = host_clock());

// On the host, for a plan whose whole time contradicts those of its steps, which were timed alone: the plan by times
// within plans, looked for during about `seconds`. `load` is marked with the times that the cache keeps.
Plan plan_on_host_in_context(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                             TimingCache& cache, double load, double seconds, const Progress& progress);
// What was chosen on the host for this very graph is found again by decided_plan, without a look at other candidates.
void remember_plan(const Graph& graph, const Plan& plan, const Device& device, TimingCache& cache, double load);
std::optional<Plan> decided_plan(const Graph& graph, const Backend& backend, const Device& device,
                                 const PlanOptions& options, TimingCache& cache);

// Whether plan_in_context would find what it chose for this very graph in the cache.
bool decided_before(const Graph& graph, const Device& device, const TimingCache& cache);

}  // namespace temper
