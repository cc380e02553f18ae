// SPDX-License-Identifier: Apache-2.0
// Estimates times for problems that were never measured from the nearest ones that were.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "plan/options.h"
#include "plan/plan.h"

namespace temper {

// Times for problems that were never measured, from those that were: the same op and constants on the nearest shape (by
// the ratio of elements), scaled by that ratio. Exact entries come first. What is like none of them is unknown.
// Several threads may ask it.
std::shared_ptr<TimeSource> nearest_times(const std::map<std::string, double>& timings, const Device& device);

// A key or group of a time with the shapes of what is not constant reduced to their ranks: equal for the same problem
// on other shapes.
std::string without_shapes(std::string_view key);

// The problem without its batch and its threads: problems of one family are slices of each other, and what is hopeless
// for one is hopeless for the others. Images of another size, or more channels, may well want another kernel.
std::string problem_family(const Problem& problem);

// The problem in words, but for its threads.
std::string text_without_threads(const Problem& problem);

// On how many threads measured plans run their steps.
class StepThreads {
 public:
  void know(const Plan& plan);
  // As in the plans that are known, for the same problem or for the nearest shape of it (by the ratio of elements)
  // where that is at least half as large; otherwise all, and for problems that no plan has one where they are too small
  // to wake others for.
  int of(const Problem& problem) const;

 private:
  std::map<std::string, int> exact_;
  std::map<std::string, std::map<double, int>> families_;  // by the elements of the activations
};

}  // namespace temper
