// SPDX-License-Identifier: Apache-2.0
// The summary of a study: its table and its verdict, from study.json.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/table.h"

namespace temper {

Table study_table(const nlohmann::ordered_json& study);
// The fastest whose answers are near FP32's and keep the budget, in a line; then what was left out for its answers.
std::string study_verdict(const nlohmann::ordered_json& study);

}  // namespace temper
