// SPDX-License-Identifier: Apache-2.0
#include "optimize/layers_by_speed.h"

#include <cmath>
#include <numeric>

#include "base/concat.h"
#include "quantize/row_scales.h"

namespace temper {

namespace {

using Layers = std::map<std::string, std::vector<std::string>>;  // with the values that each reads quantized

// The layers that a step computes: products and chains that passes made one are called "a+b" and "a + b".
std::vector<std::string> layers_of_step(const std::string& node, const Layers& layers) {
  if (layers.contains(node)) return {node};
  std::vector<std::string> found;
  for (size_t at = 0; at <= node.size();) {
    const size_t end = std::min(node.find('+', at), node.size());
    std::string name = node.substr(at, end - at);
    const size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
    if (first != name.npos) name = name.substr(first, last - first + 1);
    if (layers.contains(name)) found.push_back(std::move(name));
    at = end + 1;
  }
  return found;
}

// Layers that are one step in either plan are decided together.
class Groups {
 public:
  explicit Groups(const Layers& layers) {
    for (const auto& [name, values] : layers) parent_[name] = name;
  }
  std::string of(std::string name) const {
    while (parent_.at(name) != name) name = parent_.at(name);
    return name;
  }
  void join(const Plan& plan, const Layers& layers) {
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps) {
        const auto names = layers_of_step(step.node, layers);
        for (const std::string& name : names) parent_[of(name)] = of(names[0]);
      }
  }

 private:
  std::map<std::string, std::string> parent_;
};

// By group. `conversions`: steps that quantize a value or take it back count for its readers.
std::map<std::string, double> times_of(const Plan& plan, const Layers& layers, const Groups& groups, bool conversions) {
  std::map<std::string, double> ms;
  const auto add = [&](const std::vector<std::string>& names, double step_ms) {
    for (const std::string& name : names) ms[groups.of(name)] += step_ms / double(names.size());
  };
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      if (step.ms < 0) continue;
      add(layers_of_step(step.node, layers), step.ms);
      if (!conversions) continue;
      std::vector<std::string_view> ends(std::begin(kRowSteps), std::end(kRowSteps));
      ends.insert(ends.end(), {"/quantize", "/dequantize"});
      for (const std::string_view end : ends)
        if (step.node.ends_with(end)) {
          const std::string value = step.node.substr(0, step.node.size() - end.size());
          std::vector<std::string> readers;
          for (const auto& [name, values] : layers)
            if (std::ranges::find(values, value) != values.end()) readers.push_back(name);
          add(readers, step.ms);
        }
    }
  return ms;
}

std::string time_text(const Plan& plan) {
  const double ms = plan.whole.is_measured() ? plan.whole.ms : plan.steps_ms();
  return concat(std::round(1e4 * ms) / 1e4, " ms");
}

}  // namespace

LayerMix layers_by_speed(const Layers& layers, const std::string& bytes, DType half, const MixPlanner& build,
                         const MixComparison& is_faster, const MixExpectation& expect) {
  if (layers.empty()) return {};
  const std::string bits = half == DType::f16 ? "fp16" : "bf16";
  const KeptNodes none;
  KeptNodes all;
  for (const auto& [name, values] : layers) all[name] = half;
  if (expect) {
    expect(none);
    expect(all);
  }
  const auto integers = build(concat("all in ", bytes), none), floats = build(concat("all in ", bits), all);
  if (!integers || !floats) return {};
  Groups groups(layers);
  for (const auto* plan : {&integers, &floats}) groups.join(**plan, layers);
  const auto in_bytes = times_of(*integers, layers, groups, true), in_half = times_of(*floats, layers, groups, false);
  LayerMix mix;
  KeptNodes faster;
  for (const auto& [name, values] : layers) {
    const auto a = in_bytes.find(groups.of(name)), b = in_half.find(groups.of(name));
    if (a != in_bytes.end() && b != in_half.end() && b->second < a->second) faster[name] = half;
  }
  mix.text = concat("of ", layers.size(), " layers that may be in ", bytes, ": all so ", time_text(*integers),
                    ", all in ", bits, " ", time_text(*floats));
  mix.plan = integers;
  if (is_faster(*floats, *mix.plan)) {
    mix.plan = floats;
    mix.keep = all;
  }
  if (!faster.empty() && faster.size() < all.size()) {
    const auto mixed = build(concat("the faster of ", bytes, " and ", bits), faster);
    mix.text += concat(", ", faster.size(), " in ", bits, " because they are faster so ", time_text(*mixed));
    if (is_faster(*mixed, *mix.plan)) {
      mix.plan = mixed;
      mix.keep = faster;
    }
  }
  mix.text += concat("; taken: ", mix.keep.size(), " in ", bits, ", ", layers.size() - mix.keep.size(), " in ", bytes);
  return mix;
}

}  // namespace temper
