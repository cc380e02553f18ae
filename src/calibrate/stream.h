// SPDX-License-Identifier: Apache-2.0
// Calibrates on batches that come one by one; their number need not be known.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "calibrate/calibration.h"

namespace temper {

class StreamCalibration {
 public:
  // `method`: a method's text, or "auto", which holds samples out by the seed and keeps them in memory (HoldApart).
  // Throws Error{usage} for another. Dimensions that the model leaves open are those of the first batch.
  StreamCalibration(ImportedModel model, BuildOptions options, const std::string& method, uint64_t seed);
  ~StreamCalibration();

  const std::vector<PortInfo>& inputs() const { return ports_; }
  // Observes a batch, in the order of the inputs and of their dtypes; the first axis of the first input that has one
  // counts the samples. Returns how many they are. Throws Error{usage} for shapes that do not fit, Error{check_failed}
  // for a NaN or an infinity in any value, naming the sample by its number.
  int64_t observe(const std::vector<Tensor>& inputs);

  // As of Calibration, after the last batch.
  bool try_methods();
  std::vector<MethodTrial> trials() const;
  // Gives the ranges; nothing can be observed afterwards. Throws Error{usage} where no batch came.
  Ranges finish();

 private:
  class KeptSamples;
  void start(const std::vector<Tensor>& inputs, int64_t count);

  ImportedModel model_;
  BuildOptions options_;
  std::string method_;
  uint64_t seed_;
  std::vector<PortInfo> ports_;
  std::vector<bool> sampled_;  // by input: its first axis is that of the samples
  HoldApart apart_;
  KeptSamples* kept_ = nullptr;               // the calibration's own, of samples that "auto" may ask for
  std::unique_ptr<Calibration> calibration_;  // from the first batch on
  int64_t samples_ = 0;                       // that came
  bool ended_ = false;
};

}  // namespace temper
