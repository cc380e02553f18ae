// SPDX-License-Identifier: Apache-2.0
// Inputs and settings of a study, validated before any expensive step.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "evaluate/mixed.h"
#include "onnx/import.h"
#include "optimize/build_engine.h"

namespace temper {

struct StudyOptions {
  std::string model;  // path of the ONNX model
  // How each precision is built; precision, calibration and shapes are the study's own.
  BuildOptions build;
  std::vector<std::string> precisions;  // as asked for; fp32 is always studied
  DataRequest data;
  std::vector<std::string> devices;  // that share the evaluation, all of one kind; none: the build's own
  std::string output;                // folder of all files
  std::optional<double> max_drop;
  std::optional<Metric> metric;
  std::string method = "auto", raise_to, classes;  // of calibration; BudgetOptions'; EvaluationData's
  double seconds = 6;                              // of timing, for each precision
  int64_t batch = 0, calibration_samples = 0;      // 0: 1 or the model's own; half of the samples, at most 500
  bool force = false;
  std::vector<std::string> reads;  // other files that the front end has read, which nothing is written over
  std::string command;             // recorded in the results
  // The command of a plan, from its options, which keep the layers that the search raised, too; may be empty.
  std::function<std::string(const BuildOptions& build)> build_command;
};

// Samples: some are calibrated on; of the rest, those with the content of a calibrated one are left out.
struct StudyParts {
  std::vector<int64_t> calibration, evaluation;
  int64_t duplicates = 0;
  std::vector<Unreadable> left_out;  // of neither part
  uint64_t digest = 0;               // of the content and labels of all samples
};

struct StudySetup {
  const StudyOptions& options;
  ImportedModel model;
  Dataset data;
  StudyParts parts;
  Budget budget;                        // what it raises layers to is that of each precision
  std::vector<std::string> precisions;  // fp32 first
  std::vector<std::string> skipped;     // those that the device has not got, each with the reason
  int64_t batch = 1, fixed = 0;
  std::map<std::string, ShapeRange> shapes;  // of every build
  std::string stem;                          // of the plans' paths

  std::string ranges_path() const { return options.output + "/ranges.json"; }
  // The plans' part in the name of steps that are about all of them.
  std::string all() const {
    std::string text;
    for (const std::string& precision : precisions) text += concat(text.empty() ? "" : ",", precision);
    return text;
  }
};

// Reads the model and the data, and refuses what cannot be studied. The options outlive the result.
StudySetup set_up(const StudyOptions& options);
// The facts that the steps' results depend on. The precisions are not among it: steps about some of them have them in
// their names.
nlohmann::ordered_json key_of(const StudySetup& setup);

}  // namespace temper
