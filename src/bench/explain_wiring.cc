// SPDX-License-Identifier: Apache-2.0
#include "bench/explain_wiring.h"

#include <algorithm>
#include <deque>

#include "base/concat.h"
#include "bench/table.h"

namespace temper {

Wiring::Wiring(const EngineLayers& of, std::string precision) : engine(of), asked(std::move(precision)) {
  for (size_t i = 0; i < engine.layers.size(); ++i) {
    const EngineLayer& layer = engine.layers[i];
    for (size_t k = 0; k < layer.inputs.size(); ++k)
      if (!layer.inputs[k].name.empty()) readers_[layer.inputs[k].name].push_back({i, k});
    for (const LayerTensor& t : layer.outputs)
      if (!t.name.empty()) writers_[t.name] = i;
  }
  inputs_.insert(engine.inputs.begin(), engine.inputs.end());
  outputs_.insert(engine.outputs.begin(), engine.outputs.end());
}

bool Wiring::is_wide(const std::string& precision) const {
  return !asked.empty() && is_float(precision) && bits_of(precision) > bits_of(asked);
}
bool Wiring::is_narrow(const std::string& precision) const {
  return !asked.empty() && (is_float(precision) || is_low(precision)) && bits_of(precision) <= bits_of(asked);
}

const EngineLayer* Wiring::writer(const std::string& tensor) const {
  const auto it = writers_.find(tensor);
  return it == writers_.end() ? nullptr : &engine.layers[it->second];
}
std::vector<std::pair<size_t, size_t>> Wiring::readers(const std::string& tensor) const {
  const auto it = readers_.find(tensor);
  return it == readers_.end() ? std::vector<std::pair<size_t, size_t>>() : it->second;
}

bool Wiring::looks_past(const EngineLayer& layer) const {
  return is_conversion(layer.kind) || layer.kind == LayerKind::nothing || layer.kind == LayerKind::movement ||
         layer.kind == LayerKind::pooling;
}

bool Wiring::narrow_before(size_t start) const {
  std::set<size_t> seen{start};
  for (std::deque<size_t> open{start}; !open.empty(); open.pop_front())
    for (const LayerTensor& t : engine.layers[open.front()].inputs) {
      const auto it = writers_.find(t.name);
      if (it == writers_.end() || !seen.insert(it->second).second) continue;
      const EngineLayer& layer = engine.layers[it->second];
      if (!looks_past(layer) && is_narrow(layer.from)) return true;
      if (looks_past(layer)) open.push_back(it->second);
    }
  return false;
}

bool Wiring::narrow_after(size_t start) const {
  std::set<size_t> seen{start};
  for (std::deque<size_t> open{start}; !open.empty(); open.pop_front())
    for (const LayerTensor& t : engine.layers[open.front()].outputs)
      for (const auto& [index, input] : readers(t.name)) {
        if (!seen.insert(index).second) continue;
        const EngineLayer& layer = engine.layers[index];
        if (!looks_past(layer) && is_narrow(layer.from)) return true;
        if (looks_past(layer)) open.push_back(index);
      }
  return false;
}

bool Wiring::has_wide_residual(const EngineLayer& layer) const {
  if (layer.addend < 0 || !is_wide(layer.inputs[size_t(layer.addend)].precision)) return false;
  const EngineLayer* from = writer(layer.inputs[size_t(layer.addend)].name);
  return !from || !(is_conversion(from->kind) && is_narrow(from->from));
}

WideValue Wiring::trace(size_t product) const {
  WideValue value{product, Cause::unfused, {}};
  std::set<std::string> seen;
  std::deque<std::string> open;
  auto follow = [&](const EngineLayer& layer) {
    for (const LayerTensor& t : layer.outputs)
      if (is_wide(t.precision) && seen.insert(t.name).second) open.push_back(t.name);
  };
  auto because = [&](Cause cause) { value.cause = std::min(value.cause, cause); };
  for (follow(engine.layers[product]); !open.empty(); open.pop_front()) {
    if (is_output(open.front())) because(Cause::output);
    for (const auto& [index, input] : readers(open.front())) {
      const EngineLayer& layer = engine.layers[index];
      if (is_product(layer.kind)) {
        because(int(input) == layer.addend ? Cause::residual : Cause::fallback);
        continue;
      }
      const bool adds = layer.kind == LayerKind::pointwise && layer.inputs.size() > 1;
      if (adds) because(Cause::residual);
      else if (layer.average) because(Cause::average);
      else if (!looks_past(layer)) because(Cause::fallback);
      if (adds || layer.average || looks_past(layer)) {
        value.path.insert(index);
        follow(layer);
      }
    }
  }
  // A kernel writes the type of the residual that it adds.
  if (value.cause == Cause::unfused && has_wide_residual(engine.layers[product])) value.cause = Cause::residual;
  // Its own residual may have been dequantized because it is added in the type of the result.
  const EngineLayer& own = engine.layers[product];
  if (own.addend >= 0)
    if (const auto it = writers_.find(own.inputs[size_t(own.addend)].name); it != writers_.end())
      if (engine.layers[it->second].kind == LayerKind::dequantize) value.path.insert(it->second);
  return value;
}

std::vector<WideValue> Wiring::wide_values() const {
  std::vector<WideValue> values;
  for (size_t i = 0; i < engine.layers.size(); ++i)
    if (is_product(engine.layers[i].kind) && is_narrow(engine.layers[i].from) && is_wide(engine.layers[i].to))
      values.push_back(trace(i));
  return values;
}

Estimates::Estimates(const Wiring& wiring) : wiring_(wiring) {
  const EngineLayers& engine = wiring.engine;
  for (const EngineLayer& layer : engine.layers) layers_ms += layer.ms.value_or(0);
  double operations = 0, ms = 0;
  for (const EngineLayer& layer : engine.layers) {
    if (!layer.ms || *layer.ms < 0.01 * layers_ms || *layer.ms <= 0) continue;
    if (layer.bytes) bytes_per_ms = std::max(bytes_per_ms, double(*layer.bytes) / *layer.ms);
    if (is_product(layer.kind) && layer.operations && wiring.is_narrow(layer.from)) {
      operations += double(*layer.operations);
      ms += *layer.ms;
    }
  }
  if (engine.peaks && engine.peaks->bytes_per_s > 0) bytes_per_ms = engine.peaks->bytes_per_s / 1e3;
  if (ms > 0) rate_ = operations / ms;
}

std::string Estimates::rate_text() const {
  return concat(format_number(bytes_per_ms / 1e6), " GB/s, ",
                wiring_.engine.peaks ? "this machine's memory" : "the highest rate of a layer in this engine");
}

double Estimates::bytes_saved_ms(const EngineLayer& layer, const LayerTensor& tensor) const {
  if (!wiring_.is_wide(tensor.precision) || !tensor.bytes || bytes_per_ms <= 0 || !layer.ms) return 0;
  const double kept = double(bits_of(wiring_.asked)) / bits_of(tensor.precision);
  return std::min(double(*tensor.bytes) * (1 - kept) / bytes_per_ms, *layer.ms * (1 - kept));
}

double Estimates::narrow_write_ms(size_t product) const {
  const EngineLayer& layer = wiring_.engine.layers[product];
  if (!layer.ms) return 0;
  double twin = -1;
  for (const EngineLayer& other : wiring_.engine.layers)
    if (other.kind == layer.kind && other.ms && other.operations && layer.operations &&
        *other.operations == *layer.operations && other.from == layer.from && wiring_.is_narrow(other.to))
      twin = std::max(twin, *other.ms);
  if (twin >= 0) return std::max(0.0, *layer.ms - twin);
  double saved = 0;
  for (const LayerTensor& t : layer.inputs) saved += bytes_saved_ms(layer, t);
  for (const LayerTensor& t : layer.outputs) saved += bytes_saved_ms(layer, t);
  return saved;
}

}  // namespace temper
