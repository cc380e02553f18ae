// SPDX-License-Identifier: Apache-2.0
// Finds which layer consumes which layer's output, and why a product writes wider than it computes. Part of explain.cc
// and its rules.
#pragma once
#include <map>
#include <set>

#include "bench/explain.h"

namespace temper {

// Why a value stays wide after a product that takes narrow ones: the strongest reason downstream.
enum class Cause : uint8_t { residual, average, fallback, output, unfused };

struct WideValue {
  size_t product = 0;
  Cause cause = Cause::unfused;
  std::set<size_t> path;  // layers that the wide value passes through; conversions among them would go away
};

class Wiring {
 public:
  Wiring(const EngineLayers& engine, std::string asked);
  const EngineLayers& engine;
  const std::string asked;
  bool is_wide(const std::string& precision) const;    // numbers of more bits than asked for
  bool is_narrow(const std::string& precision) const;  // numbers of as many or less

  const EngineLayer* writer(const std::string& tensor) const;
  std::vector<std::pair<size_t, size_t>> readers(const std::string& tensor) const;  // layer and which of its inputs
  bool is_output(const std::string& tensor) const { return outputs_.contains(tensor); }
  bool is_input(const std::string& tensor) const { return inputs_.contains(tensor); }
  // Past conversions and what only moves data: some layer before it (after it) that computes on narrow numbers.
  bool narrow_before(size_t layer) const;
  bool narrow_after(size_t layer) const;
  // A residual that is wide where it comes from, not only dequantized for this reader.
  bool has_wide_residual(const EngineLayer& layer) const;
  std::vector<WideValue> wide_values() const;

 private:
  std::map<std::string, size_t> writers_;
  std::map<std::string, std::vector<std::pair<size_t, size_t>>> readers_;
  std::set<std::string> inputs_, outputs_;
  WideValue trace(size_t product) const;
  bool looks_past(const EngineLayer& layer) const;
};

// Estimates of time in one engine. Everything in milliseconds.
class Estimates {
 public:
  explicit Estimates(const Wiring& wiring);
  double layers_ms = 0;
  double bytes_per_ms = 0;  // the plan's machine, or the highest rate of a layer that matters; 0: not known
  std::string rate_text() const;
  double bytes_saved_ms(const EngineLayer& layer,
                        const LayerTensor& tensor) const;  // were the tensor as narrow as asked
  // A product that would write narrow values: against one of the same work that does, else by bytes.
  double narrow_write_ms(size_t product) const;
  std::optional<double> product_rate() const {
    return rate_;
  }  // operations a ms, of products in the precision asked for

 private:
  const Wiring& wiring_;
  std::optional<double> rate_;
};

}  // namespace temper
