// SPDX-License-Identifier: Apache-2.0
#include "evaluate/text.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace temper {

using Json = nlohmann::ordered_json;

std::string decibel_text(double db) {
  if (!std::isfinite(db)) return db > 0 ? "no difference" : "lost";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f dB", db);
  return text;
}

std::string mcnemar_text(const McNemar& pairs) {
  char text[160];
  const Interval interval = pairs.drop_interval();
  std::snprintf(text, sizeof text,
                "%lld lost, %lld won of %lld (McNemar, exact p = %.3g); drop %.2f points, 95 %% interval %.2f to %.2f",
                static_cast<long long>(pairs.lost), static_cast<long long>(pairs.won), static_cast<long long>(pairs.n),
                pairs.p(), 100 * pairs.drop(), 100 * interval.low, 100 * interval.high);
  return text;
}

std::string perplexity_text(const Evaluation& evaluation) {
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return std::string(text);
  };
  const Perplexity& own = *evaluation.perplexity;
  std::string text = concat("perplexity of the next token ", number(own.value()));
  if (const auto& other = evaluation.reference_perplexity)
    text += concat(", of the reference ", number(other->value()), " (",
                   drop_of(evaluation, Metric::perplexity) < 0 ? "" : "+",
                   number(100 * drop_of(evaluation, Metric::perplexity)), " %)");
  return concat(text, ", ", own.n, " tokens");
}

Json json_of(const Evaluation& evaluation) {
  const auto rate = [](int64_t right, double share, const Interval& interval) {
    return Json{{"rate", share}, {"right", right}, {"ci95", {interval.low, interval.high}}};
  };
  const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  Json json = {{"samples", evaluation.samples}};
  if (const auto& a = evaluation.accuracy) {
    json["classes"] = a->classes;
    json["output"] = evaluation.output;
    json["top1"] = rate(a->top1, a->top1_rate(), a->top1_interval());
    if (const std::string guessing = chance_warning(*a); !guessing.empty()) json["top1"]["warning"] = guessing;
    json["top5"] = a->classes > 5 ? rate(a->top5, a->top5_rate(), a->top5_interval()) : Json(nullptr);
  }
  if (const auto& a = evaluation.reference_accuracy)
    json["reference_top1"] = rate(a->top1, a->top1_rate(), a->top1_interval());
  if (const auto& m = evaluation.mcnemar)
    json["mcnemar"] = {{"lost", m->lost},
                       {"won", m->won},
                       {"p", m->p()},
                       {"drop", m->drop()},
                       {"drop_ci95", {m->drop_interval().low, m->drop_interval().high}}};
  if (const auto& a = evaluation.agreement)
    json["agreement"] = {{"of", a->positions ? "positions" : "samples"},
                         {"n", a->n},
                         {"rate", a->rate()},
                         {"same", a->same},
                         {"ci95", {a->interval().low, a->interval().high}}};
  if (const auto& p = evaluation.perplexity) {
    json["perplexity"] = {{"tokens", p->n}, {"value", finite(p->value())}};
    if (const auto& r = evaluation.reference_perplexity) {
      json["perplexity"]["reference"] = finite(r->value());
      json["perplexity"]["rise"] = finite(drop_of(evaluation, Metric::perplexity));
    }
  }
  for (const OutputDifference& d : evaluation.differences)
    json["outputs"].push_back({{"output", d.output},
                               {"cosine", d.cosine()},
                               {"least_cosine", d.least_cosine},
                               {"least_cosine_sample", d.least_cosine_sample},
                               {"snr_db", finite(d.snr_db())},
                               {"max_difference", finite(d.max_difference)},
                               {"max_sample", d.max_sample},
                               {"largest", d.largest}});
  return json;
}

Json json_of(const std::vector<Unreadable>& left_out) {
  auto list = Json::array();
  for (const Unreadable& one : left_out) list.push_back({{"picture", one.name}, {"why", one.error.what()}});
  return list;
}

}  // namespace temper
