// SPDX-License-Identifier: Apache-2.0
// A study: one model in several precisions, calibrated on one part of the data, evaluated on the other part and timed
// beside FP32.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "study/setup.h"

namespace temper {

struct Study {
  nlohmann::ordered_json record;  // temper.study/1, as in study.json
  // Of mixed precision under a budget, for each precision but fp32, those that quantize first: its "text" and "table"
  // (table_of_json).
  nlohmann::ordered_json searches;
  std::string verdict;  // in a line
  bool over = false;    // a precision loses more than the budget
  int threads = 0;
  std::string page;  // the path of report.html
};
// Does what is not done yet of the steps, and writes ranges.json, the plans, result.json, profiles, explanations,
// study.json, study.md and report.html into the output folder. Throws Error{usage} for what cannot be studied, and what
// its steps throw.
Study run_study(const StudyOptions& options);

}  // namespace temper
