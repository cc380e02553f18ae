// SPDX-License-Identifier: Apache-2.0
#include "cli/print_evaluation.h"

#include <cstdio>

#include "bench/table.h"
#include "cli/terminal.h"
#include "evaluate/text.h"

namespace temper::cli {

void print_evaluation(const Evaluation& evaluation) {
  Table rates{{{"metric", false}, {"share"}, {"95 % interval (Wilson)"}, {"count"}, {"of"}}, {}};
  const auto row = [&](const char* name, int64_t right, int64_t n, double rate, const Interval& interval) {
    rates.rows.push_back({name, percent_text(rate), percent_text(interval.low) + " to " + percent_text(interval.high),
                          concat(right), concat(n)});
  };
  if (const auto& a = evaluation.accuracy) {
    row("top-1", a->top1, a->n, a->top1_rate(), a->top1_interval());
    // Of five classes or fewer, the right one is always among the best five.
    if (a->classes > 5) row("top-5", a->top5, a->n, a->top5_rate(), a->top5_interval());
  }
  if (const auto& a = evaluation.reference_accuracy)
    row("top-1 of the reference", a->top1, a->n, a->top1_rate(), a->top1_interval());
  if (const auto& a = evaluation.agreement)
    row(a->positions ? "agreement of positions" : "agreement", a->same, a->n, a->rate(), a->interval());
  if (!rates.rows.empty()) print_table(rates);
  if (evaluation.perplexity) std::printf("%s\n", perplexity_text(evaluation).c_str());
  if (evaluation.mcnemar) std::printf("against the reference: %s\n", mcnemar_text(*evaluation.mcnemar).c_str());
  if (evaluation.differences.empty()) return;
  Table outputs{{{"output", false}, {"cosine"}, {"least cosine"}, {"SNR"}, {"largest difference"}, {"sample"}}, {}};
  for (const OutputDifference& d : evaluation.differences)
    outputs.rows.push_back({d.output, format_number(d.cosine(), 6), format_number(d.least_cosine, 6),
                            decibel_text(d.snr_db()), format_number(d.max_difference), concat(d.max_sample)});
  print_table(outputs);
}

}  // namespace temper::cli
