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
  int64_t batch = 0;             // 0: see DataModel::choose_batch
  std::string classes;           // EvaluationData's
  std::optional<Metric> metric;  // must come out; otherwise all that the data allow
  BuildOptions plain;            // how the front end builds FP32; device and threads follow from the engine
  Progress progress;
};

struct Evaluated {
  Evaluation evaluation;
  std::shared_ptr<const Engine> engine;
  int64_t batch = 0;
  std::vector<Unreadable> left_out;
};
// `reference` null: the same model in FP32, where the metric or the engine's precision asks for it. Throws Error{usage}
// where there is neither truth nor a reference to compare with, or where the metric cannot come out, saying what to do.
Evaluated evaluate(DataModel& model, DataModel* reference, const EvaluateOptions& options);
// What `temper evaluate --json` prints. `model` is what the user calls it.
nlohmann::ordered_json json_of(const Evaluated& evaluated, const std::string& model);

}  // namespace temper
