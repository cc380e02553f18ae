// SPDX-License-Identifier: Apache-2.0
#include "calibrate/calibration.h"

#include <algorithm>

namespace temper {

namespace {
// The choice where there is none to make; nothing for "auto".
std::optional<MethodChoice> named(const std::string& method) {
  if (method == "auto") return std::nullopt;
  return MethodChoice{Method::parse(method), "", {}};
}
}  // namespace

Calibration::Calibration(const ImportedModel& model, BuildOptions options, CalibrationSettings settings,
                         std::unique_ptr<SampleStore> store)
    : model_sha256_(model.sha256),
      options_(std::move(options)),
      settings_(std::move(settings)),
      choice_(named(settings_.method)),
      store_(std::move(store)),
      observer_(model.graph, options_) {
  if (!choice_) check_kept(observer_.seen().graph, options_.placement.keep_nodes);  // few samples try no method
}

void Calibration::add(int64_t sample) {
  pending_.push_back(sample);
  if (int64_t(pending_.size()) == settings_.batch) observe_pending();
}

void Calibration::add_batch(const Batch& batch) {
  options_.limits.time.check();
  observer_.observe(batch.inputs, batch.names, settings_.filled);
  hashes_.insert(hashes_.end(), batch.hashes.begin(), batch.hashes.end());
  observed_ += int64_t(batch.names.size());
}

void Calibration::observe_pending() {
  if (pending_.empty()) return;
  tell(settings_.progress, {"calibrating", double(observed_), double(settings_.expected), "samples"});
  Batch batch = store_->gather(pending_);
  store_->fill_up(batch.inputs, settings_.filled);
  add_batch(batch);
  store_->release(pending_);
  pending_.clear();
}

bool Calibration::try_methods() {
  if (choice_) return false;
  if (!trials_) {
    observe_pending();
    std::vector<uint64_t> hashes;
    for (int64_t sample : held_) hashes.push_back(store_->hash_of(sample));
    for (size_t place : fresh_samples(hashes_, hashes)) judges_.push_back(held_[place]);
    if (const auto fresh = int64_t(judges_.size()); fresh < HoldApart::kLeast) {
      judge_by_nothing(held() < HoldApart::kLeast ? held() : fresh);
      return false;
    }
    trials_ = std::make_unique<MethodTrials>(observer_.seen(), options_.placement, options_);
  }
  options_.limits.time.check();
  tell(settings_.progress, {"trying the methods", double(tried_), double(judges_.size()), "samples"});
  const size_t count = std::min(judges_.size() - tried_, size_t(settings_.batch));
  const Batch batch = store_->gather(std::span(judges_).subspan(tried_, count));
  std::vector<Tensor> inputs = batch.inputs;
  store_->fill_up(inputs, settings_.batch);
  trials_->add(batch, inputs, settings_.batch);
  tried_ += count;
  if (tried_ < judges_.size()) return true;
  choice_ = trials_->choose();
  trials_.reset();
  return false;
}

Ranges Calibration::finish() {
  while (try_methods()) {}
  observe_pending();
  for (int64_t sample : held_) add(sample);
  observe_pending();
  const Observation seen = observer_.finish(std::move(hashes_));
  Ranges ranges = make_ranges(seen, *choice_);
  ranges.model_sha256 = model_sha256_;
  ranges.seed = settings_.seed;
  return ranges;
}

}  // namespace temper
