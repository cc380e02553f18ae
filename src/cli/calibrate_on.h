// SPDX-License-Identifier: Apache-2.0
// Makes ranges from the samples of a data set.
#pragma once
#include <string>
#include <vector>

#include "calibrate/method_trials.h"
#include "cli/calibrate_run.h"

namespace temper::cli {

struct ApartSamples {
  std::vector<int64_t> calibration, held_apart;
};
// By HoldApart.
ApartSamples hold_apart(const std::vector<int64_t>& samples, uint64_t seed);

struct CalibrationSettings {
  int64_t batch = 0;  // 0: chosen, see CalibrationData
  uint64_t seed = 0;
};
// Ranges from these samples by a method's text or "auto", which also gives `trials` (may be null). Where too few
// samples can be held apart, it takes kUnjudged, and a note says so.
Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples,
                    const std::string& method, const CalibrationSettings& settings, const BuildOptions& options,
                    const Context& context, std::vector<MethodTrial>* trials = nullptr);

// What the user should read of ranges. What auto did is information, the rest are warnings; of many tensors the first
// five.
void log_notes(const std::vector<std::string>& notes);

}  // namespace temper::cli
