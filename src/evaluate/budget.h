// SPDX-License-Identifier: Apache-2.0
// A build under a budget: the layers that lose too much on data go back to a wider type.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "data/batches.h"
#include "evaluate/mixed.h"
#include "optimize/model_source.h"

namespace temper {

struct BudgetOptions {
  double max_drop = 0;  // a share: the loss that is allowed on the data
  std::optional<Metric> metric;
  std::string raise_to;                           // with int8: raised_to()
  DataRequest data;                               // 500 samples where their number is not asked for
  std::string classes;                            // EvaluationData's
  std::string method = "auto";                    // int8: of the calibration, where the build has no ranges
  std::function<void(const Ranges&)> calibrated;  // gets the ranges that were made, before the search; may be empty
};
// int8, fp16, bf16, tf32, int8 with 16 bits: finds the layers that stay in fp32 (those of int8 perhaps in 16 bits) so
// that the loss is within the budget, and adds them to `build.placement`. Where `build` has no ranges, they are
// calibrated on the same samples into build.ranges; bf16 and tf32 need none. Where it leaves axes of an input open
// beside the batch, build.shapes gets those of the data. What is found may not hold: LayerSearch::holds, with a
// warning. Throws Error{usage} for other precisions and for data that the metric cannot judge by.
MixedSearch keep_budget(const ModelSource& model, BuildOptions& build, const BudgetOptions& options);

// A precision that was tried for `best`.
struct TriedPrecision {
  std::string precision;
  Judgement judged;          // of the model in it, with the layers raised
  bool holds = false;        // keeps the budget
  int64_t raised = 0;        // layers
  std::optional<double> ms;  // of a run; nothing where it was not built, or nothing else was
};
struct BestSearch {
  std::vector<TriedPrecision> tried;  // the widest first
  MixedSearch mixed;                  // of the fastest that keeps the budget
};
// --precision best: keep_budget() for every precision that the device has, each by the same ranges, which are
// calibrated where `build` has none; what keeps the budget is built for the first shape and timed in turns. `build`
// gets the fastest: its precision, the layers that are raised, and the ranges if it needs them. Judged is a model with
// every layer as the search has it; int8 with 16 bits may have more of them in 16 bits, where that is faster.
BestSearch keep_budget_best(const ModelSource& model, BuildOptions& build, const BudgetOptions& options);
Table table_of(const BestSearch& best);
nlohmann::ordered_json json_of(const BestSearch& best);  // that of its mixed, and "tried"

}  // namespace temper
