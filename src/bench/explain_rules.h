// SPDX-License-Identifier: Apache-2.0
// Types and helpers that the rules of explain share. A rule looks for one thing and adds a finding or none; part of
// explain.cc.
#pragma once
#include <algorithm>
#include <functional>

#include "base/concat.h"
#include "base/count_of.h"
#include "bench/explain_wiring.h"
#include "bench/table.h"

namespace temper {

// Below this share of the time a conversion or a slow step is not worth a finding of its own.
constexpr double kWorthShare = 0.05;

inline std::string short_ms(double ms) { return concat(format_number(ms, 3), " ms"); }

class RuleBase {
 public:
  RuleBase(const Wiring& w, Explanation& f)
      : wiring(w), engine(w.engine), facts(f), estimates(w), asked(upper(w.asked)), values(w.wide_values()) {
    for (const WideValue& value : values) claimed.insert(value.path.begin(), value.path.end());
  }
  std::vector<Finding> findings;

 protected:
  const Wiring& wiring;
  const EngineLayers& engine;
  Explanation& facts;
  Estimates estimates;
  std::string asked;
  std::vector<WideValue> values;
  std::set<size_t> claimed;  // layers on the way of a wide value

  const EngineLayer& at(size_t i) const { return engine.layers[i]; }
  double ms(size_t i) const { return at(i).ms.value_or(0); }
  double share(double part) const { return estimates.layers_ms > 0 ? part / estimates.layers_ms : 0; }
  bool timed() const { return estimates.layers_ms > 0; }
  template <class Layers>
  double sum(const Layers& layers) const {
    double total = 0;
    for (size_t i : layers) total += ms(i);
    return total;
  }
  std::vector<size_t> where(const std::function<bool(size_t)>& wanted) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < engine.layers.size(); ++i)
      if (wanted(i)) found.push_back(i);
    return found;
  }
  std::vector<std::string> names(std::vector<size_t> layers) const {
    std::stable_sort(layers.begin(), layers.end(), [&](size_t a, size_t b) { return ms(a) > ms(b); });
    std::vector<std::string> result;
    for (size_t i : layers) result.push_back(at(i).name);
    return result;
  }
  // The wide precisions among tensors, as prose: "FP16/FP32".
  static std::string joined(const std::set<std::string>& precisions) {
    std::string text;
    for (const std::string& p : precisions) text += concat(text.empty() ? "" : "/", upper(p));
    return text;
  }
  std::string taking(const std::vector<size_t>& layers) const {
    std::set<std::string> precisions;
    for (size_t i : layers) precisions.insert(at(i).from);
    return joined(precisions);
  }
  void add(Finding finding, std::optional<double> gain_ms) {
    if (gain_ms && timed()) finding.gain_share = std::clamp(share(*gain_ms), 0.0, 1.0);
    else finding.estimate.clear();
    findings.push_back(std::move(finding));
  }

  void add_reasons(Finding& f) const {
    size_t shown = 0;
    for (const std::string& reason : engine.kept) {
      const std::string name = reason.substr(0, reason.find(" ("));
      if (shown < 3 && std::find(f.layers.begin(), f.layers.end(), name) != f.layers.end()) {
        f.evidence.push_back(reason);
        ++shown;
      }
    }
  }
};

void find_precision(const Wiring& wiring, Explanation& facts, std::vector<Finding>& findings);
void find_limits(const Wiring& wiring, Explanation& facts, std::vector<Finding>& findings);

}  // namespace temper
