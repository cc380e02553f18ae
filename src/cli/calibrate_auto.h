// SPDX-License-Identifier: Apache-2.0
// From samples to ranges. --method auto: no method wins for all models, so each is tried on samples that were not
// calibrated on.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/calibrate_run.h"

namespace temper::cli {

struct HeldApart {
  std::vector<int64_t> calibration, held_apart;
};
// A fifth of the samples, at most 500 of them, chosen by the seed, is held apart. Throws Error{usage} below ten samples.
HeldApart hold_apart(const std::vector<int64_t>& samples, uint64_t seed);

struct MethodChoice {
  Method method;
  std::string text;                     // why, in a line
  nlohmann::ordered_json json;          // every method with its figures
  std::vector<uint64_t> sample_hashes;  // of both parts: sorted, none twice
};
// Makes an int8 engine with the ranges of each method and compares its answers on the held-apart samples with those of
// FP32. Where an output holds classes, methods whose agreement is below the best one's (its 95 % interval does not reach
// it) are out; of the others the least noise wins (noise / signal of the worst output), the first of the list of equals.
// Samples whose content was calibrated on are left out. Prints the table unless --json.
MethodChoice choose_method(const Observation& seen, const Dataset& data, const std::vector<int64_t>& held_apart, const BuildOptions& options, const Context& context);

struct CalibrationSettings {
  int64_t batch = 0;  // 0: chosen, see CalibrationData
  uint64_t seed = 0;
};
// Ranges from these samples by a method's text or "auto", which also gives `trials` (may be null).
Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples, const std::string& method, const CalibrationSettings& settings, const BuildOptions& options,
                    const Context& context, nlohmann::ordered_json* trials = nullptr);

}  // namespace temper::cli
