// SPDX-License-Identifier: Apache-2.0
// Evaluates one engine on data: how often it is right, and how near its outputs are to those of FP32.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/data_model.h"
#include "evaluate/engines.h"

namespace temper {

struct EvaluateOptions {
  DataRequest data;
  int64_t batch = 0;                 // 0: see DataModel::choose_batch
  std::string classes;               // EvaluationData's
  std::optional<Metric> metric;      // must come out; otherwise all that the data allow
  BuildOptions plain;                // how the front end builds FP32; device and threads follow from the engine
  std::vector<std::string> devices;  // that share the batches, all of one kind; none: the engine's own
  Progress progress;
};

struct Evaluated {
  Evaluation evaluation;
  std::shared_ptr<const Engine> engine;  // null where parts of other processes were joined
  std::string precision;
  bool placeholder = false;  // calibrated on noise
  int64_t batch = 0;
  std::vector<Unreadable> left_out;
};
// `reference` null: the same model in FP32, where the metric or the engine's precision asks for it. Throws Error{usage}
// where there is neither truth nor a reference to compare with, or where the metric cannot come out, saying what to do.
Evaluated evaluate(DataModel& model, DataModel* reference, const EvaluateOptions& options);

// Batches of one engine, and what all shares of an evaluation have in common.
struct EvaluatedPart {
  BatchShare share;
  std::vector<ScoredBatch> batches;
  int64_t samples = 0;    // of all shares
  bool compared = false;  // with a reference
  std::string precision;
  bool placeholder = false;
  int64_t batch = 0;
  std::vector<Unreadable> left_out;      // of all samples
  std::shared_ptr<const Engine> engine;  // not in the text
};
// As evaluate() does it, of the batches of this share; the samples are those of all shares. Throws as that does, but
// for what only the whole shows.
EvaluatedPart evaluate_part(DataModel& model, DataModel* reference, const EvaluateOptions& options,
                            const BatchShare& share);
// The same figures, to the last bit, as of one worker. Throws Error{usage} where a share is missing or there twice,
// where they are not of one evaluation, and where the metric does not come out.
Evaluated join_parts(const std::vector<EvaluatedPart>& parts, std::optional<Metric> metric);

// The JSON that `temper evaluate --json` prints. `model` is what the user calls it.
nlohmann::ordered_json json_of(const Evaluated& evaluated, const std::string& model);

}  // namespace temper
