// SPDX-License-Identifier: Apache-2.0
// Method "auto": no calibration method wins for all models, so each is tried on held-out samples.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "calibrate/observer.h"
#include "data/agreement.h"

namespace temper {

// Decides which samples, coming one after the other, are held out to judge by: one of every five, chosen by the seed,
// and of those at most kMost, each equally likely. Their number need not be known. Fewer than kLeast judge nothing:
// then all samples are calibrated on, by kUnjudged.
class HoldApart {
 public:
  static constexpr int64_t kEvery = 5, kMost = 500;  // of 500, a difference of one sample is 0.2 % of the agreement
  static constexpr int64_t kLeast = 16;
  explicit HoldApart(uint64_t seed) : random_(seed) {}
  // Decides about the next sample: the place below kMost where it is held out, or -1 to calibrate on it. The places
  // come in order; the sample that was held at a place before is calibrated on instead.
  int64_t place();

 private:
  std::mt19937_64 random_;
  int64_t seen_ = 0, chosen_ = 0, candidates_ = 0;
};

// "auto" takes this method where nothing can be judged: the least squared error needs no judge, and clips no more than
// that is worth.
constexpr Method kUnjudged{Method::Kind::mse};
// The reason, for the ranges' notes: of the samples held apart, `fresh` were not calibrated on.
std::string unjudged_text(int64_t fresh);

// The places of the held-out samples whose content was not calibrated on, by the hashes of their contents.
std::vector<size_t> fresh_samples(std::vector<uint64_t> calibrated, std::span<const uint64_t> hashes);

// The trial of one method: how near the outputs are with its ranges.
struct MethodTrial {
  std::string method;
  std::optional<Agreement> agreement;  // with FP32, where an output holds classes
  double cosine = 1;                   // of the worst output
  double snr_db = 0;                   // of the worst output; infinite where nothing differs
  bool chosen = false;
};

struct MethodChoice {
  Method method;
  std::string text;  // why, in a line; empty where it was named
  std::vector<MethodTrial> trials;
};

// The ranges of the method that was chosen. The samples that chose it are to be observed by then: they are calibrated
// on, too.
Ranges make_ranges(const Observation& seen, const MethodChoice& choice);

// An int8 engine with the ranges of each method, and what each answers beside FP32.
class MethodTrials {
 public:
  // Builds the engines, for the shapes of the observation, which need not be kept.
  MethodTrials(const Observation& seen, const PlacementOptions& placement, BuildOptions options);
  ~MethodTrials();

  // Runs a batch of samples held apart. `inputs`: those of the batch, filled up along the first axis to the `filled`
  // samples that the engines take. Throws Error{check_failed} for a NaN or an infinity in an input or in an answer of
  // FP32, naming the sample.
  void add(const Batch& batch, const std::vector<Tensor>& inputs, int64_t filled);
  // Where an output holds classes, methods whose agreement is below the best one's (its 95 % interval does not reach
  // it) are out; of the others the least noise wins (noise / signal of the worst output), the first of the list of
  // equals.
  MethodChoice choose() const;

 private:
  struct Candidate;
  std::vector<std::string> inputs_, outputs_;
  std::unique_ptr<Session> reference_;
  std::vector<Candidate> candidates_;
};

}  // namespace temper
