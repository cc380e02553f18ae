// SPDX-License-Identifier: Apache-2.0
// Inputs and settings of a study, validated before any expensive step.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/data_flags.h"
#include "cli/mixed.h"
#include "cli/model.h"
#include "onnx/import.h"

namespace temper::cli {

struct StudyOptions {
  std::string model;
  ModelFlags flags;
  DataFlags data_flags;
  std::string data, output, max_drop, metric, method = "auto", raise_to, classes, duration = "6s";
  int64_t batch = 0, samples = 0, calibration_samples = 0;
  uint64_t seed = 0;
  bool force = false;
};

// Samples: half of them, at most 500, are calibrated on; of the rest, those with the content of a calibrated one are
// left out.
struct StudyParts {
  std::vector<int64_t> calibration, evaluation;
  int64_t duplicates = 0;
  std::vector<Unreadable> left_out;  // of neither part
  uint64_t digest = 0;               // of the content and labels of all samples
};

struct StudySetup {
  const StudyOptions& options;
  const Context& context;
  ImportedModel model;
  Dataset data;
  StudyParts parts;
  Budget budget;
  std::optional<double> max_drop;
  std::vector<std::string> precisions;  // fp32 first
  std::vector<std::string> skipped;     // those that the device has not got, each with the reason
  int64_t batch = 1, fixed = 0;
  ModelFlags flags;  // of every build
  std::string stem;  // of the plans' paths

  std::string ranges_path() const { return options.output + "/ranges.json"; }
  // Of the plans, in the name of steps that are about all of them.
  std::string all() const {
    std::string text;
    for (const std::string& precision : precisions) text += concat(text.empty() ? "" : "+", precision);
    return text;
  }
};

// Reads the model and the data, and refuses what cannot be studied. Both arguments outlive the result.
StudySetup set_up(const StudyOptions& options, const Context& context);
// What the steps' results depend on. The precisions are not among it: steps about some of them have them in their
// names.
nlohmann::ordered_json key_of(const StudySetup& setup);

}  // namespace temper::cli
