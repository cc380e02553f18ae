// SPDX-License-Identifier: Apache-2.0
// THE loop of calibration: samples are observed batch after batch; for the method "auto" some are held out to judge the
// methods by, and then observed, too. Where samples come from, a SampleStore knows.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "calibrate/method_trials.h"
#include "onnx/import.h"

namespace temper {

// Samples by number, as long as they may still be asked for.
class SampleStore {
 public:
  virtual ~SampleStore() = default;
  virtual uint64_t hash_of(int64_t sample) = 0;  // Batch::hashes
  virtual Batch gather(std::span<const int64_t> samples) = 0;
  // Repeats the last sample in the inputs of a batch until there are `count`; inputs without samples stay as they are.
  virtual void fill_up(std::vector<Tensor>& inputs, int64_t count) const = 0;
  // These were observed, and nobody asks for them again.
  virtual void release(std::span<const int64_t>) {}
};

struct CalibrationSettings {
  std::string method = "auto";  // or a method's text
  uint64_t seed = 0;            // of the choice of the held-out samples
  int64_t batch = 1;            // samples in a batch that is gathered
  int64_t filled = 0;           // every observed batch is filled up to that; 0: to nothing
  int64_t expected = 0;         // samples that will come, for the progress; 0: not known
  Progress progress;
};

class Calibration {
 public:
  // `options` are those of an FP32 build, whose shapes allow these batches. Throws Error{usage} for no method.
  Calibration(const ImportedModel& model, BuildOptions options, CalibrationSettings settings,
              std::unique_ptr<SampleStore> store);

  const Engine& engine() const { return observer_.engine(); }
  // Observes a sample, with others that make a batch. Throws Error{check_failed} for a NaN or an infinity in any value,
  // naming the sample.
  void add(int64_t sample);
  // Observes a batch of the caller's as it is, now. It has inputs, names and hashes.
  void add_batch(const Batch& batch);
  // For "auto": holds a sample out.
  void hold(int64_t sample) { held_.push_back(sample); }
  int64_t held() const { return int64_t(held_.size()); }
  // The same in the place of one that was held out, which is returned.
  int64_t hold_instead(int64_t place, int64_t sample) { return std::exchange(held_.at(size_t(place)), sample); }
  // For "auto": nothing judges, as only so many samples could be held out; kUnjudged is taken.
  void judge_by_nothing(int64_t samples) { choice_ = {kUnjudged, unjudged_text(samples), {}}; }

  // For "auto", after the last sample: each call tries every method on the next batch of the held-out samples, until
  // one returns false. The first does where those that are not copies of others are fewer than HoldApart::kLeast.
  bool try_methods();
  const std::vector<MethodTrial>& trials() const { return choice_->trials; }  // after the last, none without "auto"
  // Observes what was held out, and gives the ranges. Nothing can be observed afterwards.
  Ranges finish();

 private:
  void observe_pending();

  std::string model_sha256_;
  BuildOptions options_;
  CalibrationSettings settings_;
  std::optional<MethodChoice> choice_;  // without "auto" from the beginning
  std::unique_ptr<SampleStore> store_;
  Observer observer_;
  std::vector<int64_t> pending_;        // fewer than a batch
  std::vector<int64_t> held_, judges_;  // judges: those of the held ones that are no copies of what was observed
  std::vector<uint64_t> hashes_;        // of the samples observed
  int64_t observed_ = 0;
  std::unique_ptr<MethodTrials> trials_;
  size_t tried_ = 0;  // the first of judges_
};

}  // namespace temper
