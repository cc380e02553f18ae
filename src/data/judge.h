// SPDX-License-Identifier: Apache-2.0
// Decides whether an engine answers well enough beside another one: one rule for study and --max-drop, whatever the two
// precisions are.
#pragma once
#include <optional>
#include <string>

#include "data/agreement.h"

namespace temper {

// Few samples may all keep their best class in a model whose outputs are wrecked, so a count of answers never stands
// alone. What is nearer than both is near: noise of 2 % of the signal's power, which leaves a cosine of 0.99 where it
// is not correlated with the signal. INT8 with sound ranges reaches 20 to 35 dB, BF16 40 and more.
constexpr double kLeastSnrDb = 17, kLeastCosine = 0.99;
// The drop that samples should be able to tell from none where no budget says another.
constexpr double kToldDrop = 0.01;

struct Judgement {
  Metric metric = Metric::snr;
  double drop = 0;          // by the metric, as a share
  int64_t answers = 0;      // that the metric counts; 0: it counts none
  Interval interval{0, 0};  // of the drop, 95 %, where it counts
  double noise = 0;         // noise / signal of the worst output
  double cosine = 1;        // of the worst output, mean over the samples
  bool near = true;         // SNR and cosine are at least those above
  bool holds = true;        // near, and the drop within the budget, where there is one
  double snr_db() const;
};

// The rule. By `metric`, or default_metric, the drop is at most `max_drop` (where there is one), and SNR and cosine are
// at least kLeastSnrDb and kLeastCosine. Where the metric is itself cosine, snr or difference and has a budget, the
// budget stands alone: it says how far is allowed. Throws as drop_of.
Judgement judge(const Evaluation& evaluation, std::optional<Metric> metric, std::optional<double> max_drop);

// How many answers, none of them lost, show with 95 % that the drop of a metric that counts is at most `drop`, above 0.
int64_t answers_to_tell(Metric metric, double drop);
bool counts_answers(Metric metric);  // top1, agreement
// The drop in words. One that is counted has its interval: "1.67 % (0.71 to 3.86 %)". Where none is seen in fewer
// answers than tell `told` (a budget; kToldDrop for none, or 0): "at most 16.11 % (20 answers; 381 would tell 1.00 %)".
// Other drops are the number alone.
std::string drop_text(const Judgement& judgement, std::optional<double> told = {});
// Names what is not near: "SNR 11.7 dB and cosine 0.907, where 17 dB and 0.99 are asked for"; empty where all is.
std::string far_text(const Judgement& judgement);

}  // namespace temper
