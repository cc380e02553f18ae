// SPDX-License-Identifier: Apache-2.0
// Explains by which steps one engine becomes faster than another.
#include <cmath>

#include "bench/explain_rules.h"

namespace temper {

namespace {

int width(const Explanation& e) { return e.asked.empty() ? 1000 : bits_of(e.asked); }
std::optional<double> time_of(const Explanation& e) {
  return e.run_ms ? e.run_ms : e.layers_ms > 0 ? std::optional(e.layers_ms) : std::nullopt;
}
std::string time_text(const Explanation& e) { return concat(format_number(*time_of(e)), " ms"); }

double kind_ms(const Explanation& e, std::initializer_list<LayerKind> kinds) {
  double ms = 0;
  for (const TimeShare& s : e.kinds)
    for (LayerKind kind : kinds)
      if (s.name == name_of(kind)) ms += s.ms;
  return ms;
}

EngineStep step_between(const Explanation& a, const Explanation& b) {
  EngineStep step{a.name, b.name, {}, "", {}};
  const bool known = (a.run_ms && b.run_ms) || (!a.run_ms && !b.run_ms && a.layers_ms > 0 && b.layers_ms > 0);
  if (known) {
    step.ratio = *time_of(b) / *time_of(a);
    const double change = 100 * (*step.ratio - 1);
    step.headline = concat(a.name, " -> ", b.name, ": ", time_text(a), " -> ", time_text(b), ", ",
                           format_number(std::abs(change), 3), change < 0 ? " % less" : " % more");
  } else {
    step.headline = concat(a.name, " -> ", b.name, ": no times of both to compare");
  }
  if (a.asked != b.asked) step.why.push_back(concat(upper(a.asked), " -> ", upper(b.asked)));
  if (a.is_timed && b.is_timed) {
    auto changed = [&](std::string_view what, std::initializer_list<LayerKind> kinds) {
      const double before = kind_ms(a, kinds), after = kind_ms(b, kinds);
      // A change below a fortieth of the larger engine explains nothing.
      if (std::abs(after - before) < 0.025 * std::max(a.layers_ms, b.layers_ms)) return;
      step.why.push_back(concat(what, ' ', short_ms(before), " -> ", short_ms(after), " (",
                                percent(before / a.layers_ms), " -> ", percent(after / b.layers_ms),
                                " of the layers)"));
    };
    changed("convolutions and products", {LayerKind::convolution, LayerKind::matmul});
    changed("reformats and Q/DQ", {LayerKind::quantize, LayerKind::dequantize, LayerKind::reformat});
    changed("pools and reductions", {LayerKind::pooling, LayerKind::reduction});
    changed("pointwise layers", {LayerKind::pointwise, LayerKind::softmax, LayerKind::normalization});
    changed("data movement", {LayerKind::movement});
  }
  // Layers wider than asked for are a change only where both engines were asked for the same.
  auto counted = [&](std::string_view what, int64_t before, int64_t after, int64_t all) {
    if (a.asked == b.asked && before != after)
      step.why.push_back(concat(what, " wider than ", upper(b.asked), ": ", before, " -> ", after, " of ", all));
    if (a.asked != b.asked && after > 0)
      step.why.push_back(concat(what, " wider than ", upper(b.asked), ": ", after, " of ", all));
  };
  counted("residual inputs", a.products.residuals_wider, b.products.residuals_wider, b.products.residuals);
  counted("average pools", a.products.averages_wider, b.products.averages_wider, b.products.averages);
  counted("convolutions and products writing", a.products.writing_wider, b.products.writing_wider, b.products.all);
  return step;
}

std::string closing(const Explanation& a, const Explanation& b) {
  std::string how;
  auto part = [&](bool holds, std::string_view what) {
    if (holds) how += concat(how.empty() ? "" : " and ", what);
  };
  part(b.products.residuals_wider < a.products.residuals_wider, "has Q/DQ on the residual inputs too");
  part(b.products.averages_wider < a.products.averages_wider, "has Q/DQ around the average pool");
  return how;
}

}  // namespace

ExplainedSet compare_engines(std::vector<Explanation> engines) {
  ExplainedSet set;
  set.engines = std::move(engines);
  std::stable_sort(set.engines.begin(), set.engines.end(), [](const Explanation& a, const Explanation& b) {
    if (width(a) != width(b)) return width(a) > width(b);
    return time_of(a).value_or(-1) > time_of(b).value_or(-1);
  });
  const auto& all = set.engines;
  for (size_t i = 1; i < all.size(); ++i) set.steps.push_back(step_between(all[i - 1], all[i]));
  // All of them have whole runs timed, or none has: otherwise the times do not compare.
  const auto with_runs =
      std::count_if(all.begin(), all.end(), [](const Explanation& e) { return e.run_ms.has_value(); });
  const bool comparable =
      with_runs == int64_t(all.size()) ||
      (with_runs == 0 && std::all_of(all.begin(), all.end(), [](const Explanation& e) { return e.is_timed; }));
  if (!comparable) return set;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i; k-- > 0;) {
      const Explanation &wide = all[k], &narrow = all[i];
      if (width(wide) <= width(narrow) || *time_of(narrow) < *time_of(wide)) continue;
      std::string text = concat(narrow.name, " is ", upper(narrow.asked), " and no faster than ", wide.name, " (",
                                upper(wide.asked), "): ", time_text(narrow), " against ", time_text(wide), ".");
      if (narrow.conversions_share >= kWorthShare)
        text += concat(" It spends ", percent(narrow.conversions_share), " of its layers' time in reformats and Q/DQ.");
      if (narrow.products.writing_wider > narrow.products.for_outputs)
        text += concat(" ", narrow.products.writing_wider, " of its ", narrow.products.all,
                       " convolutions and products write ", narrow.products.wider_written, ".");
      set.answers.push_back(text);
      break;  // the nearest says it
    }
  for (size_t i = 1; i < all.size(); ++i) {
    const std::string how = closing(all[i - 1], all[i]);
    if (width(all[i - 1]) == width(all[i]) && !how.empty() && *time_of(all[i]) < *time_of(all[i - 1]))
      set.answers.push_back(concat("What closes the gap: ", all[i].name, ' ', how, ", and takes ", time_text(all[i]),
                                   " where ", all[i - 1].name, " takes ", time_text(all[i - 1]), ", ",
                                   percent(1 - *time_of(all[i]) / *time_of(all[i - 1])), " less."));
  }
  return set;
}

}  // namespace temper
