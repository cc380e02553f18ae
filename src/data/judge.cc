// SPDX-License-Identifier: Apache-2.0
#include "data/judge.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace temper {

namespace {

std::string rounded(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

bool counts_answers(Metric metric) { return metric == Metric::top1 || metric == Metric::agreement; }

double Judgement::snr_db() const { return -10 * std::log10(noise); }

Judgement judge(const Evaluation& evaluation, std::optional<Metric> metric, std::optional<double> max_drop) {
  Judgement j;
  j.metric = metric.value_or(default_metric(evaluation));
  j.drop = drop_of(evaluation, j.metric);
  j.noise = worst_noise_share(evaluation);
  for (const OutputDifference& d : evaluation.differences) j.cosine = std::min(j.cosine, d.cosine());
  if (j.metric == Metric::top1) j.answers = evaluation.mcnemar->n, j.interval = evaluation.mcnemar->drop_interval();
  if (j.metric == Metric::agreement) {
    const Interval alike = evaluation.agreement->interval();
    j.answers = evaluation.agreement->n;
    j.interval = {1 - alike.high, 1 - alike.low};
  }
  j.near = !(j.noise > std::pow(10, -kLeastSnrDb / 10)) && !(j.cosine < kLeastCosine);
  const bool bounded = max_drop && !counts_answers(j.metric);
  j.holds = (j.near || bounded) && (!max_drop || j.drop <= *max_drop);
  return j;
}

int64_t answers_to_tell(Metric metric, double drop) {
  constexpr double z = 1.959963984540054;
  // Wilson's interval of n of n reaches down to n / (n + z^2), that of pairs without a difference (McNemar) up to z /
  // (n + 2).
  return int64_t(std::ceil((metric == Metric::top1 ? z / drop - 2 : z * z * (1 - drop) / drop) * (1 - 1e-12)));
}

std::string drop_text(const Judgement& j, std::optional<double> told) {
  if (!j.answers) return rounded("%.3g", 100 * j.drop) + " %";
  const double least = told.value_or(0) > 0 ? *told : kToldDrop;
  if (j.drop == 0 && j.interval.high > least)
    return concat("at most ", percent_text(j.interval.high), " (", j.answers, " answers; ",
                  answers_to_tell(j.metric, least), " would tell ", percent_text(least), ")");
  return concat(percent_text(j.drop), " (", rounded("%.2f", 100 * j.interval.low), " to ",
                percent_text(j.interval.high), ")");
}

std::string far_text(const Judgement& j) {
  if (j.near) return "";
  return concat("SNR ", rounded("%.1f", j.snr_db()), " dB and cosine ", rounded("%.4g", j.cosine), ", where ",
                kLeastSnrDb, " dB and ", kLeastCosine, " are asked for");
}

}  // namespace temper
