// SPDX-License-Identifier: Apache-2.0
// The rules about precision: what is wider than it was asked for, and what that costs.
#include "bench/explain_rules.h"

namespace temper {

namespace {

class PrecisionRules : public RuleBase {
 public:
  using RuleBase::RuleBase;
  void run() {
    count_products();
    unquantized(Cause::residual);
    unquantized(Cause::average);
    unquantized(Cause::unfused);
    products_in_float();
    others_in_float();
  }

 private:
  void count_products() {
    ProductCounts& n = facts.products;
    for (size_t i = 0; i < engine.layers.size(); ++i) {
      const EngineLayer& layer = at(i);
      if (layer.average) {
        ++n.averages;
        n.averages_wider += is_wide_average(i);
      }
      if (!is_product(layer.kind)) continue;
      ++n.all;
      n.known += !layer.from.empty();
      n.tf32 += layer.from == "tf32";
      n.asked += wiring.is_narrow(layer.from);
      n.residuals += layer.addend >= 0;
      n.residuals_wider += wiring.has_wide_residual(layer);
    }
    n.writing_wider = int64_t(values.size());
    std::set<std::string> written;
    for (const WideValue& value : values) written.insert(at(value.product).to);
    n.wider_written = joined(written);
    for (const WideValue& value : values)
      ++(value.cause == Cause::residual  ? n.for_residuals
         : value.cause == Cause::average ? n.for_averages
         : value.cause == Cause::output  ? n.for_outputs
                                         : n.for_others);
  }
  bool is_wide_average(size_t i) const {
    return at(i).average && wiring.is_wide(at(i).from) && wiring.narrow_before(i) && wiring.narrow_after(i);
  }

  // Narrow products that write wide values for one cause: what is converted because of it, and what is moved too much.
  void unquantized(Cause cause) {
    std::vector<size_t> products;
    std::set<size_t> path;
    std::set<std::string> precisions, residuals;
    for (const EngineLayer& layer : engine.layers)
      if (wiring.has_wide_residual(layer)) residuals.insert(layer.inputs[size_t(layer.addend)].precision);
    for (const WideValue& value : values)
      if (value.cause == cause) {
        products.push_back(value.product);
        path.insert(value.path.begin(), value.path.end());
        precisions.insert(at(value.product).to);
      }
    // An average pool keeps what is only its own; a residual's way may lead into one.
    if (cause == Cause::average)
      for (size_t i = 0; i < engine.layers.size(); ++i)
        if (is_wide_average(i)) add_around(i, path);
    if (cause != Cause::residual)
      for (const WideValue& value : values)
        if (value.cause < cause)
          for (size_t i : value.path) path.erase(i);
    const auto averages = where([&](size_t i) { return is_wide_average(i); });
    if (cause == Cause::average ? averages.empty() : products.empty()) return;
    std::vector<size_t> gone;
    double saved = 0;
    for (size_t i : path) {
      if (is_conversion(at(i).kind)) {
        gone.push_back(i);
        continue;
      }
      for (const LayerTensor& t : at(i).inputs) saved += estimates.bytes_saved_ms(at(i), t);
      for (const LayerTensor& t : at(i).outputs) saved += estimates.bytes_saved_ms(at(i), t);
    }
    for (size_t i : products) saved += estimates.narrow_write_ms(i);
    std::vector<size_t> all = products;
    all.insert(all.end(), path.begin(), path.end());
    const ProductCounts& n = facts.products;
    Finding f;
    f.layers = names(all);
    const std::string writes = concat(products.size(), " of ", n.asked, " convolutions and products that take ", asked,
                                      " write ", joined(precisions), " for it");
    if (cause == Cause::residual) {
      f.id = "residuals_in_float";
      f.what = "Residual additions are not quantized";
      f.evidence.push_back(n.residuals ? concat(n.residuals_wider, " of ", n.residuals, " residual inputs are ",
                                                joined(residuals), "; ", writes)
                                       : writes);
      f.change = engine.is_plan
                     ? "the reasons are below; a residual needs a range in the calibration (temper calibrate)"
                     : "place Q/DQ on the residual inputs too, so that the addition and what comes before it "
                       "stay in 8 bits";
    } else if (cause == Cause::average) {
      f.id = "average_pool_in_float";
      f.what = concat(averages.size() == 1 ? "The average pool works" : "Average pools work", " in ", taking(averages),
                      " between ", asked, " layers");
      if (!products.empty()) f.evidence.push_back(writes);
      f.change = engine.is_plan ? "nothing in the model: Temper takes the mean in FP32"
                                : "put Q/DQ around the global average pool";
    } else {
      f.id = "quantize_not_fused";
      f.what = concat(asked, " layers write ", joined(precisions), " that is only quantized again");
      f.evidence.push_back(writes);
      f.change = "place the Q right behind the layer (or behind its activation), with nothing between";
    }
    if (!gone.empty())
      f.evidence.push_back(
          concat(count_of(int64_t(gone.size()), "conversion"), " on the way",
                 timed() ? concat(" take ", short_ms(sum(gone)), ", ", percent(share(sum(gone)))) : ""));
    f.estimate = "the time of those conversions";
    if (saved > 0)
      f.estimate += concat(", and what the others gain: against layers of the same work that write ", asked,
                           ", or the bytes not moved at ", estimates.rate_text());
    add_reasons(f);
    add(std::move(f), sum(gone) + saved);
  }
  void add_around(size_t i, std::set<size_t>& path) const {
    path.insert(i);
    for (const LayerTensor& t : at(i).inputs)
      for (size_t k = 0; k < engine.layers.size(); ++k)
        for (const LayerTensor& out : at(k).outputs)
          if (out.name == t.name && !t.name.empty() && is_conversion(at(k).kind)) path.insert(k);
    for (const LayerTensor& t : at(i).outputs)
      for (const auto& [reader, input] : wiring.readers(t.name))
        if (is_conversion(at(reader).kind)) path.insert(reader);
  }
  void products_in_float() {
    // Those on the reference have a finding of their own.
    const auto wide =
        where([&](size_t i) { return is_product(at(i).kind) && !at(i).reference && wiring.is_wide(at(i).from); });
    if (wide.empty()) return;
    const auto between = std::count_if(wide.begin(), wide.end(),
                                       [&](size_t i) { return wiring.narrow_before(i) || wiring.narrow_after(i); });
    Finding f;
    f.id = "products_in_float";
    f.what = concat(wide.size(), " of ", count_of(facts.products.all, "convolution"), " and products compute in ",
                    taking(wide), ", not in ", asked);
    if (timed()) f.evidence.push_back(concat("they take ", percent(share(sum(wide))), " of the time"));
    if (between) f.evidence.push_back(concat(between, " of them have neighbours in ", asked));
    f.change = engine.is_plan
                   ? "the reasons are in temper inspect --json (not_lowered); --max-drop of build chooses by accuracy"
               : is_low(wiring.asked)
                   ? "place Q/DQ on the inputs and the weights of these layers"
                   : "allow the precision for these layers (a cast in the model, or a layer that has "
                     "no kernel in it, keeps them)";
    f.layers = names(wide);
    add_reasons(f);
    std::optional<double> saved;
    if (const auto rate = estimates.product_rate()) {
      for (size_t i : wide)
        if (at(i).operations && at(i).ms)
          saved = saved.value_or(0) + std::max(0.0, ms(i) - double(*at(i).operations) / *rate);
      f.estimate =
          concat("their operations at the rate of the ", asked, " ones, ", format_number(*rate / 1e9), " Top/s");
    }
    add(std::move(f), saved);
  }

  void others_in_float() {
    const auto wide = where([&](size_t i) {
      const LayerKind kind = at(i).kind;
      return !is_product(kind) && !is_conversion(kind) && kind != LayerKind::nothing && !at(i).average &&
             !claimed.contains(i) && wiring.is_wide(at(i).from) && wiring.narrow_before(i) && wiring.narrow_after(i);
    });
    if (wide.empty()) return;
    std::set<size_t> conversions;
    double saved = 0;
    for (size_t i : wide) {
      add_around(i, conversions);
      for (const LayerTensor& t : at(i).inputs) saved += estimates.bytes_saved_ms(at(i), t);
      for (const LayerTensor& t : at(i).outputs) saved += estimates.bytes_saved_ms(at(i), t);
    }
    for (size_t i : wide) conversions.erase(i);
    for (size_t i : claimed) conversions.erase(i);
    Finding f;
    f.id = "others_in_float";
    f.what = concat(count_of(int64_t(wide.size()), "layer"), " between ", asked, " layers ",
                    wide.size() == 1 ? "works" : "work", " in ", taking(wide));
    if (timed())
      f.evidence.push_back(
          concat("with the conversions around them: ", percent(share(sum(wide) + sum(conversions))), " of the time"));
    f.change = engine.is_plan ? "the reasons are in temper inspect --json (not_lowered)"
                              : "put Q/DQ around them where the operator can work in 8 bits";
    f.estimate = concat("the conversions around them, and the bytes not moved at ", estimates.rate_text());
    f.layers = names(wide);
    add_reasons(f);
    add(std::move(f), sum(conversions) + saved);
  }
};

}  // namespace

void find_precision(const Wiring& wiring, Explanation& facts, std::vector<Finding>& findings) {
  PrecisionRules rules(wiring, facts);
  rules.run();
  for (Finding& f : rules.findings) findings.push_back(std::move(f));
}

}  // namespace temper
