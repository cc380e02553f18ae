// SPDX-License-Identifier: Apache-2.0
// Runs engines over data side by side.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/agreement.h"
#include "data/batches.h"
#include "data/not_finite.h"

namespace temper {

struct EvaluationData {
  const Dataset& data;
  std::vector<int64_t> samples;
  BatchSizes batch;
  std::string classes;  // the output that holds them; "": the only one that can
  // Where score_batches runs, all equal to the engines' own (engines_on); none: where the engines are.
  std::vector<std::string> devices = {};
  DeviceSettings settings = {};
};

// The results of one batch.
struct ScoredBatch {
  std::vector<Evaluation> evaluations;  // by tested engine
  NotFinite broken;
};
// Each of `tested` over the samples, beside the reference (may be null); every batch is read once, and all of it is
// done by the device that takes it. The figures do not depend on the number of devices. Two guards stop it, as any
// figure would be wrong: the count of classes, and samples that one of them was calibrated on. Throws Error{usage}
// where the outputs differ by name.
std::vector<ScoredBatch> score_batches(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                                       const std::vector<std::shared_ptr<const Engine>>& tested,
                                       const Progress& progress);
// All of them together, by tested engine. Accuracy at chance level and values that are not finite are warnings.
std::vector<Evaluation> join_batches(const std::vector<ScoredBatch>& batches);
// Both.
std::vector<Evaluation> evaluate_engines(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                                         const std::vector<std::shared_ptr<const Engine>>& tested,
                                         const Progress& progress);

// The answers of the reference, kept to be compared with one candidate after the other.
struct ReferenceAnswers {
  std::vector<Batch> batches;
  std::vector<std::vector<Tensor>> outputs;  // by batch
  int64_t samples = 0;
  std::optional<Accuracy> accuracy;  // of the reference, where there is truth
  int tokens = -1;                   // Evaluator's
};
// As many of the samples as inputs and answers of 512 MiB hold, one batch at least. The count of classes is checked;
// calibrated samples are what a search looks at.
ReferenceAnswers keep_answers(const EvaluationData& what, const std::shared_ptr<const Engine>& reference,
                              const Progress& progress);
// On all devices of `what`, by the batches in their order. Those that were lost are no longer among them.
Evaluation evaluate_beside(EvaluationData& what, const ReferenceAnswers& reference,
                           const std::shared_ptr<const Engine>& tested);

}  // namespace temper
