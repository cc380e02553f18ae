// SPDX-License-Identifier: Apache-2.0
#include "plan/nearest.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "base/parse.h"

namespace temper {

namespace {

// "f32[8,64,56,56]" -> "f32[4]" (its rank) unless a '*' follows, which marks a constant. The product of the stripped
// dimensions is added up in `elements`.
std::string strip_shapes(std::string_view text, double& elements) {
  std::string out;
  elements = 0;
  for (size_t i = 0; i < text.size();) {
    const bool type = text[i] == '[' && i > 0 &&
                      ((text[i - 1] >= '0' && text[i - 1] <= '9') || text[i - 1] == 'l');  // f32[ ... bool[
    const size_t close = type ? text.find(']', i) : text.npos;
    if (close == text.npos || (close + 1 < text.size() && text[close + 1] == '*')) {
      out += text[i++];
      continue;
    }
    double product = 1;
    int rank = 0;
    for (size_t at = i + 1; at < close;) {
      if (const auto dim = parse_leading<double>(text.substr(at, close - at))) product *= std::max(1.0, dim->value);
      ++rank;
      const size_t comma = text.find(',', at);
      at = comma == text.npos || comma > close ? close : comma + 1;
    }
    elements += product;
    out += concat('[', rank, ']');
    i = close + 1;
  }
  return out;
}

struct Known {
  double elements, ms;
};

class NearestTimes final : public TimeSource {
 public:
  NearestTimes(const std::map<std::string, double>& timings, const Device& device) : device_(device), exact_(timings) {
    for (const auto& [key, ms] : timings) {
      double elements = 0;
      std::string stripped = strip_shapes(key, elements);
      similar_[std::move(stripped)].push_back({elements, ms});
    }
  }
  CandidateTime time(const Problem& problem, const Tactic& tactic, const Config& config, int chains) override {
    const std::string key = timing_key(timing_group(device_.fingerprint, problem, chains), tactic, config);
    if (auto it = exact_.find(key); it != exact_.end()) return CandidateTime::of(it->second);
    double elements = 0;
    auto it = similar_.find(strip_shapes(key, elements));
    if (it == similar_.end()) return {};
    const Known* best = &it->second.front();
    for (const Known& known : it->second)
      if (std::fabs(std::log(known.elements / elements)) < std::fabs(std::log(best->elements / elements)))
        best = &known;
    return CandidateTime::of(best->ms * elements / best->elements);
  }

 private:
  const Device device_;
  const std::map<std::string, double> exact_;
  std::unordered_map<std::string, std::vector<Known>> similar_;
};

}  // namespace

std::string without_shapes(std::string_view key) {
  double elements = 0;
  return strip_shapes(key, elements);
}

std::string problem_family(const Problem& problem) {
  Problem of_one = problem;
  of_one.threads = 0;
  const auto take_one = [](Port& port) {
    if (!port.is_constant && !port.type.shape.empty()) port.type.shape[0] = 1;
  };
  std::for_each(of_one.inputs.begin(), of_one.inputs.end(), take_one);
  std::for_each(of_one.outputs.begin(), of_one.outputs.end(), take_one);
  return of_one.text();
}

std::string text_without_threads(const Problem& problem) {
  Problem same = problem;
  same.threads = 0;
  return same.text();
}

void StepThreads::know(const Plan& plan) {
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      if (step.is_reorder() || segment.parallel) continue;
      double elements = 0;
      const std::string text = text_without_threads(step.problem), family = strip_shapes(text, elements);
      exact_.emplace(text, step.problem.threads);
      families_[family].emplace(elements, step.problem.threads);
    }
}

namespace {

// Of a problem that is like none: waking a worker and waiting for it takes a few microseconds, in which one thread does
// about as many scalar steps.
int threads_worth_waking(const Problem& problem) {
  constexpr double kLeast = 1 << 17;
  std::vector<TensorType> inputs, outputs;
  for (const Port& port : problem.inputs) inputs.push_back(port.type);
  for (const Port& port : problem.outputs) outputs.push_back(port.type);
  return reference_cost(problem.op, inputs, outputs) < kLeast ? 1 : problem.threads;
}

}  // namespace

int StepThreads::of(const Problem& problem) const {
  const std::string text = text_without_threads(problem);
  if (auto it = exact_.find(text); it != exact_.end()) return it->second;
  double elements = 0;
  const auto family = families_.find(strip_shapes(text, elements));
  if (family == families_.end()) return threads_worth_waking(problem);
  auto nearest = family->second.begin();
  for (auto it = nearest; it != family->second.end(); ++it)
    if (std::fabs(std::log(it->first / elements)) < std::fabs(std::log(nearest->first / elements))) nearest = it;
  return elements <= 2 * nearest->first ? nearest->second : problem.threads;  // more work is worth more threads
}

std::shared_ptr<TimeSource> nearest_times(const std::map<std::string, double>& timings, const Device& device) {
  return std::make_shared<NearestTimes>(timings, device);
}

}  // namespace temper
