// SPDX-License-Identifier: Apache-2.0
// Calibrates on batches that come one by one; their number need not be known.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/method_trials.h"
#include "onnx/import.h"

namespace temper {

class StreamCalibration {
 public:
  // `method`: a method's text, or "auto", which holds samples apart by the seed and keeps them in memory (HoldApart).
  // Throws Error{usage} for another. Dimensions that the model leaves open are those of the first batch.
  StreamCalibration(ImportedModel model, BuildOptions options, const std::string& method, uint64_t seed);
  ~StreamCalibration();

  const std::vector<PortInfo>& inputs() const { return ports_; }
  // Observes a batch, in the order of the inputs and of their dtypes; the first axis of the first input that has one
  // counts the samples. Returns how many they are. Throws Error{usage} for shapes that do not fit, Error{check_failed}
  // for a NaN or an infinity in any value, naming the sample by its number.
  int64_t observe(const std::vector<Tensor>& inputs);

  // For "auto", after the last batch: each call tries every method on the next batch of held-out samples, until one
  // returns false. The first does where those are fewer than HoldApart::kLeast: then kUnjudged is taken. In the end
  // they are calibrated on, too.
  bool try_methods();
  const std::vector<MethodTrial>& trials() const { return choice_.trials; }  // after the last, none without "auto"
  // Gives the ranges; nothing can be observed afterwards. Throws Error{usage} where no batch came.
  Ranges finish();

 private:
  struct Sample;
  void start(const std::vector<Tensor>& inputs);
  void observe_samples(std::vector<Sample>& samples);
  Batch batch_of(const std::vector<Sample>& samples, size_t first, size_t count, std::vector<Tensor>& filled) const;
  std::vector<Sample> split(const std::vector<Tensor>& inputs, int64_t count);
  void end();

  ImportedModel model_;
  BuildOptions options_;
  std::optional<Method> method_;  // none: auto
  uint64_t seed_;
  std::vector<PortInfo> ports_;
  std::unique_ptr<Observer> observer_;
  std::optional<Observation> seen_;  // after the last batch
  std::vector<uint64_t> hashes_;     // of the samples calibrated on
  int64_t samples_ = 0;              // that came
  std::vector<bool> sampled_;        // by input: its first axis is that of the samples

  // Only "auto" uses these.
  HoldApart apart_;
  int64_t batch_ = 0;            // samples of the first batch, and of every one that is run
  std::vector<Tensor> first_;    // inputs of the first batch that have no samples
  std::vector<Sample> pending_;  // fewer than a batch, not observed yet
  std::vector<Sample> held_;
  std::unique_ptr<MethodTrials> trials_;
  size_t judges_ = 0, tried_ = 0;  // the first of held_
  MethodChoice choice_;
};

}  // namespace temper
