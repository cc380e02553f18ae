// SPDX-License-Identifier: Apache-2.0
#include "calibrate/method_trials.h"

#include <algorithm>

#include "base/count_of.h"
#include "data/given_inputs.h"
#include "data/sample.h"
#include "data/tokens.h"
#include "optimize/precision.h"
#include "optimize/trial.h"
#include "quantize/observe.h"

namespace temper {

namespace {

constexpr const char* kMethods[] = {"entropy", "percentile:99.9", "percentile:99.99", "percentile:99.999",
                                    "mse",     "minmax"};

// The place of the best.
size_t best_of(const std::vector<Evaluation>& results) {
  double rate = 0;
  for (const Evaluation& e : results)
    if (e.agreement) rate = std::max(rate, e.agreement->rate());
  size_t best = results.size();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].agreement && results[i].agreement->interval().high < rate) continue;
    if (best == results.size() || worst_noise_share(results[i]) < worst_noise_share(results[best])) best = i;
  }
  return best;
}

}  // namespace

int64_t HoldApart::place() {
  const int64_t at = seen_++ % kEvery;
  if (at == 0) chosen_ = int64_t(random_() % uint64_t(kEvery));
  if (at != chosen_) return -1;
  // Reservoir sampling (J. Vitter, "Random sampling with a reservoir", 1985, algorithm R).
  const int64_t candidate = candidates_++;
  if (candidate < kMost) return candidate;
  const auto place = int64_t(random_() % uint64_t(candidate + 1));
  return place < kMost ? place : -1;
}

std::string unjudged_text(int64_t fresh) {
  return concat("auto took ", kUnjudged.text(), ": of the samples, ", fresh,
                " could be held apart to judge the methods by, fewer than ", HoldApart::kLeast, "; ",
                HoldApart::kLeast * HoldApart::kEvery, " samples that differ are enough");
}

std::vector<size_t> fresh_samples(std::vector<uint64_t> calibrated, std::span<const uint64_t> hashes) {
  std::sort(calibrated.begin(), calibrated.end());
  std::vector<size_t> fresh;
  for (size_t i = 0; i < hashes.size(); ++i)
    if (!std::binary_search(calibrated.begin(), calibrated.end(), hashes[i])) fresh.push_back(i);
  return fresh;
}

Ranges make_ranges(const Observation& seen, const MethodChoice& choice) {
  Ranges ranges = make_ranges(seen, choice.method);
  if (!choice.text.empty()) ranges.notes.push_back(choice.text);
  return ranges;
}

struct MethodTrials::Candidate {
  Candidate(std::shared_ptr<const Engine> engine, Evaluator judge)
      : session(std::make_unique<Session>(std::move(engine))), evaluator(std::move(judge)) {}
  std::unique_ptr<Session> session;
  Evaluator evaluator;
};

MethodTrials::MethodTrials(const Observation& seen, const PlacementOptions& placement, BuildOptions options) {
  options.replace_shapes(seen.shapes);
  const auto reference = trial_engine(seen.graph, options);
  std::vector<TensorType> types;
  for (const PortInfo& input : reference->inputs()) inputs_.push_back(input.name);
  for (const PortInfo& output : reference->outputs()) outputs_.push_back(output.name), types.push_back(output.type);
  // The truth does not matter here, and may not be known.
  const bool text = text_inputs(input_specs(*reference)).tokens >= 0;
  const Evaluator evaluator(outputs_, classes_output(outputs_, types, "", text), false, true);
  reference_ = std::make_unique<Session>(reference);
  for (const char* name : kMethods) {
    Ranges ranges;
    std::vector<std::string> warnings;  // those of the method chosen are given with its ranges
    for (const std::string& value : seen.order)
      ranges.values[value] = make_range(value, Method::parse(name), seen.values.at(value), warnings);
    candidates_.emplace_back(
        trial_engine(in_precision(seen.graph, "int8", ranges, placement, options.device, options.passes), options),
        evaluator);
  }
}
MethodTrials::~MethodTrials() = default;

void MethodTrials::add(const Batch& batch, const std::vector<Tensor>& inputs, int64_t filled) {
  const auto check = [&](const std::string& name, const Tensor& tensor) {
    Observed nothing;
    if (tensor.dtype() == DType::f32) observe(nothing, tensor, name, batch.names);
  };
  for (size_t i = 0; i < batch.inputs.size(); ++i) check(inputs_[i], batch.inputs[i]);
  const std::vector<Tensor> wanted = run_filled(*reference_, inputs, filled, batch.count);
  for (size_t i = 0; i < wanted.size(); ++i) check(outputs_[i], wanted[i]);
  for (Candidate& candidate : candidates_)
    candidate.evaluator.add(batch, wanted, run_filled(*candidate.session, inputs, filled, batch.count));
}

MethodChoice MethodTrials::choose() const {
  std::vector<Evaluation> results;
  for (const Candidate& candidate : candidates_) results.push_back(candidate.evaluator.result());
  const size_t best = best_of(results);
  MethodChoice choice;
  choice.method = Method::parse(kMethods[best]);
  for (size_t i = 0; i < results.size(); ++i) {
    MethodTrial& trial = choice.trials.emplace_back();
    trial.method = kMethods[i];
    trial.agreement = results[i].agreement;
    for (const OutputDifference& d : results[i].differences) trial.cosine = std::min(trial.cosine, d.cosine());
    trial.snr_db = -10 * std::log10(worst_noise_share(results[i]));
    trial.chosen = i == best;
  }
  const Evaluation& chosen = results[best];
  choice.text =
      concat("auto chose ", kMethods[best], " on ", count_of(chosen.samples, "sample"), " held apart",
             chosen.agreement ? concat(": agreement with FP32 ", percent_text(chosen.agreement->rate())) : "");
  return choice;
}

}  // namespace temper
