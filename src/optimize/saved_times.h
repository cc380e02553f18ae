// SPDX-License-Identifier: Apache-2.0
// Compares the times of layers in two precisions, as the builds of both measured them.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace temper {

// The times of an engine's first plan: a layer's time is the sum of its steps'.
struct LayerTimes {
  std::map<std::string, double> ms;
  std::map<std::string, std::set<std::string>> problems;  // Problem::text() of those steps
  bool quiet = true;                                      // no others worked meanwhile, as far as is known
};
LayerTimes layer_times(const Engine& engine);

// Builds in one precision. What BuildOptions::doubted is to be.
using TimedBuild = std::function<LayerTimes(const std::set<std::string>& doubted)>;

struct SavedTimes {
  std::map<std::string, double> ms;  // by layer that both have: the wider one's time less the narrower one's
  std::vector<std::string> slower;   // layers that take longer in the narrower by more than 5 % and 0.01 ms, the worst
                                     // first
};
// A layer that the narrower one makes slower is rare enough to be doubted: both are timed again, once, where the
// machine was quiet.
SavedTimes saved_by(const TimedBuild& narrow, const TimedBuild& wide);

}  // namespace temper
