// SPDX-License-Identifier: Apache-2.0
// Observing a model in FP32 on the samples of a data set, or on noise.
#pragma once
#include <vector>

#include "calibrate/observer.h"
#include "cli/verb.h"
#include "data/dataset.h"
#include "onnx/import.h"

namespace temper::cli {

struct CalibrationData {
  std::vector<int64_t> samples;  // of the dataset
  int64_t batch = 0;             // 0: chosen so that all values of a batch take at most 256 MiB
};

// Runs the samples and observes. Memory does not depend on their number, but for 8 bytes each.
Observation observe_samples(const ImportedModel& model, const Dataset& data, const CalibrationData& what, BuildOptions options, const Context& context);
// The same on seeded noise, for want of data. Shapes are those of the options; open batches are 1.
Observation observe_noise(const ImportedModel& model, int64_t samples, uint64_t seed, BuildOptions options, const Context& context);

}  // namespace temper::cli
