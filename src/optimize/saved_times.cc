// SPDX-License-Identifier: Apache-2.0
#include "optimize/saved_times.h"

#include <algorithm>

#include "measure/load_watch.h"

namespace temper {

LayerTimes layer_times(const Engine& engine) {
  LayerTimes times;
  const auto plans = engine.plans();
  if (plans.empty()) return times;
  times.quiet = plans.front()->whole.load < kLoadThatCounts;
  for (const Segment& segment : plans.front()->segments)
    for (const PlanStep& step : segment.steps) {
      if (step.is_reorder() || step.ms < 0) continue;
      times.ms[step.node] += step.ms;
      times.problems[step.node].insert(step.problem.text());
    }
  return times;
}

static SavedTimes saved(const LayerTimes& wide, const LayerTimes& narrow) {
  constexpr double kShare = 0.05, kMs = 0.01;
  SavedTimes saved;
  std::vector<std::pair<double, std::string>> slower;
  for (const auto& [layer, ms] : wide.ms)
    if (const auto it = narrow.ms.find(layer); it != narrow.ms.end()) {
      const double gain = saved.ms[layer] = ms - it->second;
      if (-gain > std::max(kShare * ms, kMs)) slower.emplace_back(gain, layer);
    }
  std::sort(slower.begin(), slower.end());
  for (const auto& [gain, layer] : slower) saved.slower.push_back(layer);
  return saved;
}

SavedTimes saved_by(const TimedBuild& narrow, const TimedBuild& wide) {
  LayerTimes in_wide = wide({}), in_narrow = narrow({});
  SavedTimes first = saved(in_wide, in_narrow);
  if (first.slower.empty() || !in_wide.quiet || !in_narrow.quiet) return first;
  std::set<std::string> doubted;
  for (const std::string& layer : first.slower)
    for (LayerTimes* times : {&in_wide, &in_narrow}) doubted.merge(std::set(times->problems[layer]));
  return saved(wide(doubted), narrow(doubted));
}

}  // namespace temper
