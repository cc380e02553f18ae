// SPDX-License-Identifier: Apache-2.0
// Calibrates on samples of a data set, or on noise for want of one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/calibration.h"
#include "data/batches.h"

namespace temper {

struct DatasetCalibration {
  std::string method = "auto";  // or a method's text
  uint64_t seed = 0;
  int64_t batch = 0;  // 0: so that all values of a batch take at most 256 MiB
  Progress progress;
  BatchShare share;  // of the samples; joined, ranges of all shares are those of one run
};
// The ranges from these samples. "auto" also gives `trials` (may be null); where too few samples can be held out, it
// takes kUnjudged, and a note says so. Memory does not depend on the number of samples, but for 8 bytes each. `options`
// are those of an FP32 build; shapes follow from the data. Throws Error{usage} where the model fixes another batch, and
// Error{check_failed} for a NaN or an infinity, naming value and sample. Throws Error{usage} for "auto" of a share. A
// share without a batch gives ranges of no samples and no values.
Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples,
                    const DatasetCalibration& settings, BuildOptions options,
                    std::vector<MethodTrial>* trials = nullptr);

// The ranges from seeded noise, marked as a placeholder. Shapes are those of the options; open batches are 1. `method`
// is not "auto": noise judges nothing.
Ranges calibrate_on_noise(const ImportedModel& model, int64_t samples, const std::string& method, uint64_t seed,
                          BuildOptions options, const Progress& progress = {});

// Logs what the user should read of ranges. What auto did is information, the rest are warnings; of many tensors the
// first five.
void log_notes(const std::vector<std::string>& notes);

}  // namespace temper
