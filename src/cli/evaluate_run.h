// SPDX-License-Identifier: Apache-2.0
// Runs engines over data side by side, and shows what came out.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/table.h"
#include "cli/batches.h"
#include "data/agreement.h"

namespace temper::cli {

struct EvaluationData {
  const Dataset& data;
  std::vector<int64_t> samples;
  BatchSizes batch;
  std::string classes;  // the output that holds them; "": the only one that can
};

// Each of `tested` over the samples, beside the reference (may be null); every batch is read once. Two guards stop it,
// as any figure would be wrong: the count of classes, and samples that one of them was calibrated on. Accuracy at
// chance level and values that are not finite are warnings. Throws Error{usage} where the outputs differ by name.
std::vector<Evaluation> evaluate_engines(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                                         const std::vector<std::shared_ptr<const Engine>>& tested,
                                         const Context& context);

// What the reference answers, kept to be compared with one candidate after the other.
struct ReferenceAnswers {
  std::vector<Batch> batches;
  std::vector<std::vector<Tensor>> outputs;  // by batch
  int64_t samples = 0;
  std::optional<Accuracy> accuracy;  // of the reference, where there is truth
};
// As many of the samples as inputs and answers of 512 MiB hold, one batch at least. The count of classes is checked;
// calibrated samples are what a search looks at.
ReferenceAnswers keep_answers(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                              const Context& context);
Evaluation evaluate_beside(const EvaluationData& what, const ReferenceAnswers& reference,
                           const std::shared_ptr<const Engine>& tested);

// Of the model that a plan was built from or that is built here: its FP32 engine. Where the plan's model is not to be
// found or is another one by now, null, and `why` says so.
std::shared_ptr<const Engine> fp32_reference(const std::string& path, const Engine& engine, const EvaluationData& data,
                                             const Context& context, std::string& why);

std::string decibel_text(double db);  // "31.2 dB", "infinite"
nlohmann::ordered_json json_of(const Evaluation& evaluation);
void print_evaluation(const Evaluation& evaluation);
std::string mcnemar_text(const McNemar& pairs);  // "2 lost, 1 won against FP32 of 599; p = 1 (McNemar, exact)"

}  // namespace temper::cli
