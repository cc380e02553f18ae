// SPDX-License-Identifier: Apache-2.0
#include "bench/explain.h"

#include <algorithm>

#include "base/concat.h"
#include "base/error.h"
#include "bench/explain_rules.h"
#include "bench/table.h"

namespace temper {

namespace {

// The lowest precision that convolutions and products compute in, or where there are none, any layer.
std::string lowest_seen(const EngineLayers& engine) {
  for (const bool products : {true, false}) {
    std::string lowest;
    for (const EngineLayer& layer : engine.layers)
      if ((is_float(layer.from) || is_low(layer.from)) && (is_product(layer.kind) || !products) &&
          (lowest.empty() || bits_of(layer.from) < bits_of(lowest)))
        lowest = layer.from;
    if (!lowest.empty()) return lowest == "tf32" ? "fp32" : lowest;
  }
  return "";
}

void add_share(std::vector<TimeShare>& shares, const std::string& name, const EngineLayer& layer) {
  auto it = std::find_if(shares.begin(), shares.end(), [&](const TimeShare& s) { return s.name == name; });
  if (it == shares.end()) it = shares.insert(shares.end(), {name});
  ++it->layers;
  it->ms += layer.ms.value_or(0);
}

void finish(std::vector<TimeShare>& shares, double total) {
  for (TimeShare& s : shares) s.share = total > 0 ? s.ms / total : 0;
  std::stable_sort(shares.begin(), shares.end(), [](const TimeShare& a, const TimeShare& b) {
    return a.ms != b.ms ? a.ms > b.ms : a.layers > b.layers;
  });
}

std::string answer_of(const Explanation& e) {
  const ProductCounts& n = e.products;
  if (e.asked.empty()) return "The files do not say in which precision the layers work.";
  const std::string asked = upper(e.asked);
  if (!n.all) return "There is no convolution or product in it.";
  if (!n.known) return "The files do not say in which precision convolutions and products compute.";
  double share = 0;
  for (const TimeShare& s : e.precisions)
    if (s.name != "conversions" && bits_of(s.name) && bits_of(s.name) <= bits_of(e.asked)) share += s.share;
  std::string text = concat(n.asked == n.all ? "Yes: all "
                            : n.asked == 0   ? "No: none of "
                                             : concat(n.asked, " of "),
                            n.all, " convolutions and products compute in ", asked);
  if (e.is_timed) text += concat("; layers of that precision take ", percent(share), " of the time");
  if (n.tf32) text += concat("; ", n.tf32, " of them round their operands to TF32 for the tensor cores");
  text += ".";
  if (!n.writing_wider) return text;
  if (n.for_outputs == n.writing_wider) return concat(text, " What the engine gives out is ", n.wider_written, ".");
  std::string why;
  auto part = [&](int64_t count, std::string_view what) {
    if (count) why += concat(why.empty() ? "" : ", ", count, ' ', what);
  };
  part(n.for_residuals, "for residual additions");
  part(n.for_averages, "for an average pool");
  part(n.for_outputs, n.for_outputs == 1 ? "as the engine's output" : "as outputs of the engine");
  part(n.for_others, "for other layers");
  return concat(text, " But ", n.writing_wider, " of ", n.asked, " write ", n.wider_written, ": ", why, ".");
}

}  // namespace

Explanation explain(const EngineLayers& engine, const std::string& asked) {
  static constexpr std::string_view precisions[] = {"fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"};
  if (!asked.empty() && std::find(std::begin(precisions), std::end(precisions), asked) == std::end(precisions))
    fail(ErrorKind::usage, "'", asked, "' is no precision; they are fp32, tf32, bf16, fp16, fp8, int8, fp4, int4");
  Explanation e;
  e.name = engine.name;
  e.is_plan = engine.is_plan;
  e.asked = !asked.empty() ? asked : engine.asked;
  if (e.asked.empty()) {
    e.asked = lowest_seen(engine);
    e.asked_is_lowest = !e.asked.empty();
  }
  e.run_ms = engine.run_ms;
  e.enqueue_ms = engine.enqueue_ms;
  e.runs = engine.runs;
  e.notes = engine.notes;
  for (const EngineLayer& layer : engine.layers) {
    e.layers_ms += layer.ms.value_or(0);
    e.is_timed = e.is_timed || layer.ms;
  }
  for (const EngineLayer& layer : engine.layers) {
    if (layer.kind == LayerKind::nothing || (layer.ms && *layer.ms == 0)) continue;
    const bool converts = is_conversion(layer.kind);
    add_share(e.precisions, converts ? "conversions" : layer.from.empty() ? "unknown" : layer.from, layer);
    add_share(e.kinds, std::string(name_of(layer.kind)), layer);
    e.conversions += converts;
    if (converts) e.conversions_ms += layer.ms.value_or(0);
  }
  finish(e.precisions, e.layers_ms);
  finish(e.kinds, e.layers_ms);
  e.conversions_share = e.layers_ms > 0 ? e.conversions_ms / e.layers_ms : 0;
  if (!e.is_timed)
    e.notes.push_back("without a layer profile (--exportProfile) nothing is known of where the time goes");
  const Wiring wiring(engine, e.asked);
  find_precision(wiring, e, e.findings);
  find_limits(wiring, e, e.findings);
  for (Finding& f : e.findings)
    if (f.gain_share && e.run_ms) f.gain_ms = *f.gain_share * *e.run_ms;
  // A missing kernel is what to know first, whatever else there is to gain.
  std::stable_sort(e.findings.begin(), e.findings.end(), [](const Finding& a, const Finding& b) {
    const bool first = a.id == "reference_steps", second = b.id == "reference_steps";
    return first != second ? first : a.gain_share.value_or(-1) > b.gain_share.value_or(-1);
  });
  e.answer = answer_of(e);
  return e;
}

}  // namespace temper
