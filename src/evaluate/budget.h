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
  std::string raise_to;                           // int8: "bf16" or "fp32"; empty: bf16 where the device has it
  DataRequest data;                               // 500 samples where their number is not asked for
  std::string classes;                            // EvaluationData's
  std::string method = "auto";                    // int8: of the calibration, where the build has no ranges
  std::function<void(const Ranges&)> calibrated;  // gets the ranges that were made, before the search; may be empty
};
// int8, fp16 or bf16: finds the layers that stay in fp32 (those of int8 perhaps in bf16) so that the loss is within the
// budget, and adds them to `build.placement`. Where `build` has no ranges, they are calibrated on the same samples into
// build.ranges; bf16 needs none. What is found may not hold: LayerSearch::holds, with a warning. Throws Error{usage}
// for other precisions and for data that the metric cannot judge by.
MixedSearch keep_budget(const ModelSource& model, BuildOptions& build, const BudgetOptions& options);

}  // namespace temper
