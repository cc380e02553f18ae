// SPDX-License-Identifier: Apache-2.0
#include "optimize/segments.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "measure/timer.h"
#include "optimize/in_context.h"
#include "optimize/plan_buffers.h"
#include "optimize/step_threads.h"
#include "plan/choose.h"
#include "plan/execute_host.h"
#include "plan/planner.h"

namespace temper {

namespace {

struct Mode {
  int64_t slice;  // 0: whole
  bool parallel;
  std::string text() const {
    return slice == 0 ? "whole batch" : concat("slices of ", slice, parallel ? ", a chain per thread" : "");
  }
};

// Consecutive groups of one mode become one segment.
std::vector<SegmentSpec> specs_of(const std::vector<Group>& groups, const std::vector<Mode>& modes) {
  std::vector<SegmentSpec> specs;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Mode mode = groups[g].sliceable ? modes[g] : Mode{0, false};
    if (!specs.empty() && specs.back().slice == mode.slice && specs.back().parallel == mode.parallel)
      specs.back().last = groups[g].last;
    else specs.push_back({groups[g].first, groups[g].last, mode.slice, mode.parallel});
  }
  return specs;
}

}  // namespace

std::vector<Group> find_groups(const Graph& graph, const BatchInfo& batch) {
  const int32_t nodes = graph.node_count();
  // The last node that uses each value; outputs live to the end.
  std::vector<int32_t> last_use(size_t(graph.value_count()), -1);
  for (int32_t v = 0; v < graph.value_count(); ++v)
    for (NodeId user : graph.value({v}).users) last_use[size_t(v)] = std::max(last_use[size_t(v)], user.index);
  std::vector<int> ending(size_t(nodes) + 1, 0);
  std::vector<Group> groups;
  int live = 0;
  for (ValueId id : graph.inputs())
    if (last_use[size_t(id.index)] >= 0) ++live, ++ending[size_t(last_use[size_t(id.index)])];
  int32_t first = 0;
  for (int32_t n = 0; n < nodes; ++n) {
    for (ValueId id : graph.node({n}).outputs)
      if (last_use[size_t(id.index)] >= 0) ++live, ++ending[size_t(last_use[size_t(id.index)])];
    live -= ending[size_t(n)];
    const bool changes = n + 1 < nodes && batch.node_sliceable[size_t(n)] != batch.node_sliceable[size_t(n) + 1];
    if (live > 1 && !changes && n + 1 < nodes) continue;
    bool sliceable = true;
    for (int32_t i = first; i <= n; ++i) sliceable &= batch.node_sliceable[size_t(i)] != 0;
    groups.push_back({first, n, sliceable});
    first = n + 1;
  }
  return groups;
}

double time_plan(const Plan& plan, const Device& device, double best_ms, std::vector<std::vector<double>>* step_ms) {
  Arena arena(device);
  HostExecutor executor(plan, device, arena);
  PlanBuffers buffers(plan);
  executor.run(buffers.inputs, buffers.outputs);
  const double ms = quick_time_ms([&] { executor.run(buffers.inputs, buffers.outputs); },
                                  {.best_ms = best_ms, .give_up = 1.15, .max_ms = 600, .max_runs = 8});
  if (step_ms) {
    step_ms->clear();
    for (int i = 0; i < 2; ++i) {  // the quieter of two
      std::vector<std::vector<double>> one;
      executor.run_timed(buffers.inputs, buffers.outputs, one);
      if (i == 0) *step_ms = one;
      for (size_t s = 0; s < one.size(); ++s)
        for (size_t k = 0; k < one[s].size(); ++k) (*step_ms)[s][k] = std::min((*step_ms)[s][k], one[s][k]);
    }
  }
  return ms;
}

Plan search_segments(const Graph& graph, const Backend& backend, const Device& device, PlanOptions options,
                     const Progress& progress) {
  const BatchInfo batch = analyze_batch(graph);
  const std::vector<Group> groups = find_groups(graph, batch);
  options.segments.clear();
  Plan plain = build_plan(graph, backend, device, options);
  if (options.search_is_over()) return plain;
  ThreadedPlan threaded =
      choose_step_threads(graph, backend, device, options, std::move(plain), timer_of_plans(device), progress);
  options.threads_of = threaded.threads_of;
  Plan best = std::move(threaded.plan);
  const bool any_sliceable = std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.sliceable; });
  if (batch.batch <= 1 || !any_sliceable) return best;

  std::vector<Mode> modes{{0, false}};
  for (int64_t slice : {1, 2, 4, 8, 16}) {
    if (slice >= batch.batch || batch.batch % slice) continue;
    const int64_t slices = batch.batch / slice;
    if (options.threads > 1 && slices % options.threads == 0) modes.push_back({slice, true});
    if (slice == 4) modes.push_back({slice, false});
  }
  // Every mode for the whole graph, timed step by step in its context; then the best mode for each group.
  std::vector<std::vector<double>> cost(groups.size(),
                                        std::vector<double>(modes.size(), std::numeric_limits<double>::infinity()));
  double best_ms = std::numeric_limits<double>::infinity(), second_ms = best_ms;
  Plan second;
  auto consider = [&](std::vector<SegmentSpec> specs, std::vector<std::vector<double>>* step_ms,
                      const std::string& what) -> Plan {
    tell_words(progress, "trying ", what);
    options.segments = std::move(specs);
    Plan plan = build_plan(graph, backend, device, options);
    const double ms = time_plan(plan, device, best_ms, step_ms);
    log(LogLevel::debug, what, ": ", ms, " ms");
    if (ms < best_ms) {
      second_ms = std::exchange(best_ms, ms);
      second = std::exchange(best, plan);
    } else if (ms < second_ms) {
      second_ms = ms;
      second = plan;
    }
    return plan;
  };
  for (size_t m = 0; m < modes.size(); ++m) {
    if (m && options.search_is_over()) return best;
    std::vector<std::vector<double>> step_ms;
    const Plan plan = consider(specs_of(groups, std::vector<Mode>(groups.size(), modes[m])), &step_ms, modes[m].text());
    // Which group each step belongs to, by the name of its node; reorders count where they stand.
    std::map<std::string, size_t> group_of;
    for (size_t g = 0; g < groups.size(); ++g)
      for (int32_t n = groups[g].first; n <= groups[g].last; ++n) group_of[graph.node({n}).name] = g;
    for (size_t g = 0; g < groups.size(); ++g) cost[g][m] = 0;
    size_t current = 0;
    for (size_t s = 0; s < plan.segments.size(); ++s)
      for (size_t k = 0; k < plan.segments[s].steps.size(); ++k) {
        if (auto it = group_of.find(plan.segments[s].steps[k].node); it != group_of.end()) current = it->second;
        cost[current][m] += step_ms[s][k];
      }
  }
  // Shortest path over groups; a change of mode sends the value at the border through memory.
  auto border_ms = [&](size_t g) {
    double bytes = 0;
    for (ValueId id : graph.node({groups[g].last}).outputs)
      bytes += double(byte_count(graph.type(id).dtype, graph.type(id).dims()));
    return 0.02 + bytes / 2e7;  // read and written once more, at 20 GB/s each
  };
  std::vector<std::vector<double>> sum = cost;
  std::vector<std::vector<size_t>> from(groups.size(), std::vector<size_t>(modes.size(), 0));
  for (size_t g = 1; g < groups.size(); ++g)
    for (size_t m = 0; m < modes.size(); ++m) {
      double least = std::numeric_limits<double>::infinity();
      for (size_t p = 0; p < modes.size(); ++p)
        if (const double ms = sum[g - 1][p] + (p == m ? 0 : border_ms(g - 1)); ms < least) {
          least = ms;
          from[g][m] = p;
        }
      sum[g][m] = least + cost[g][m];
    }
  std::vector<Mode> chosen(groups.size());
  size_t m = size_t(std::min_element(sum.back().begin(), sum.back().end()) - sum.back().begin());
  for (size_t g = groups.size(); g-- > 0;) {
    chosen[g] = modes[m];
    m = from[g][m];
  }
  consider(specs_of(groups, chosen), nullptr, "the mix of the best");
  // One look at each is at the mercy of what else the machine did: the two best again, in turns.
  constexpr double kNear = 1.1;
  Workbench bench(device);
  return second_ms < kNear * best_ms && is_faster(second, best, bench, device) ? second : best;
}

}  // namespace temper
