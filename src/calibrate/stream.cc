// SPDX-License-Identifier: Apache-2.0
#include "calibrate/stream.h"

#include <algorithm>
#include <cstring>

#include "data/sample.h"

namespace temper {

namespace {

constexpr int64_t kMostSamples = 1 << 16;  // of a batch, where the model leaves it open

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.dims());
  if (copy.bytes()) std::memcpy(copy.raw_mutable(), tensor.raw().data(), size_t(copy.bytes()));
  return copy;
}

}  // namespace

// One sample that is kept: its part of every input that has samples.
struct StreamCalibration::Sample {
  int64_t number = 0;
  uint64_t hash = 0;
  std::vector<Tensor> rows;
};

StreamCalibration::StreamCalibration(ImportedModel model, BuildOptions options, const std::string& method,
                                     uint64_t seed)
    : model_(std::move(model)), options_(std::move(options)), seed_(seed), apart_(seed) {
  if (method != "auto") method_ = Method::parse(method);
  for (ValueId id : model_.graph.inputs()) ports_.push_back({model_.graph.value(id).name, model_.graph.type(id)});
}
StreamCalibration::~StreamCalibration() = default;

void StreamCalibration::start(const std::vector<Tensor>& inputs) {
  const auto counted =
      std::find_if(ports_.begin(), ports_.end(), [](const PortInfo& port) { return !port.type.shape.empty(); });
  for (size_t i = 0; i < ports_.size(); ++i) {
    const Shape& shape = ports_[i].type.shape;
    if (shape.size() != inputs[i].dims().size())
      fail(ErrorKind::usage, "input '", ports_[i].name, "' was given the shape ", inputs[i].dims(), "; expected is ",
           ports_[i].type);
    ShapeRange range{inputs[i].dims(), inputs[i].dims(), inputs[i].dims()};
    if (!shape.empty() && !shape[0].is_constant()) {
      range.min[0] = 1;
      range.max[0] = std::max(kMostSamples, range.opt[0]);
    }
    options_.shapes[ports_[i].name] = std::move(range);
    // A first dimension that the model fixes is not that of the samples where theirs is open.
    sampled_.push_back(!shape.empty() && inputs[i].dims()[0] == inputs[size_t(counted - ports_.begin())].dims()[0] &&
                       shape[0].is_constant() == counted->type.shape[0].is_constant());
  }
  observer_ = std::make_unique<Observer>(model_.graph, options_);
}

int64_t StreamCalibration::observe(const std::vector<Tensor>& inputs) {
  if (seen_) fail(ErrorKind::usage, "the calibration has ended");
  int64_t count = 1;
  for (const Tensor& tensor : inputs)
    if (tensor.rank() > 0) {
      count = tensor.dims()[0];
      break;
    }
  if (count < 1) fail(ErrorKind::usage, "a batch of calibration data has no samples in it");
  if (!observer_) start(inputs);
  if (!method_) {
    for (Sample& sample : split(inputs, count)) {
      const int64_t place = apart_.place();
      if (place >= 0 && place == int64_t(held_.size())) {
        held_.push_back(std::move(sample));
        continue;
      }
      if (place >= 0) std::swap(held_[size_t(place)], sample);
      pending_.push_back(std::move(sample));
      if (int64_t(pending_.size()) == batch_) observe_samples(pending_);
    }
  } else {
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(concat(samples_ + i));
    observer_->observe(inputs, names);
    std::vector<uint64_t> hashes(static_cast<size_t>(count));
    bool first = true;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (sampled_[i] && inputs[i].dims()[0] == count) {
        add_sample_hashes(hashes, inputs[i], first);
        first = false;
      }
    hashes_.insert(hashes_.end(), hashes.begin(), hashes.end());
  }
  samples_ += count;
  return count;
}

std::vector<StreamCalibration::Sample> StreamCalibration::split(const std::vector<Tensor>& inputs, int64_t count) {
  std::vector<Dims> shapes;
  for (const Tensor& tensor : inputs) shapes.push_back(tensor.dims());
  observer_->engine().check_shapes(shapes);
  if (!batch_) {
    batch_ = count;
    for (size_t i = 0; i < inputs.size(); ++i) first_.push_back(sampled_[i] ? Tensor() : copy_of(inputs[i]));
  }
  std::vector<Sample> samples(static_cast<size_t>(count));
  std::vector<uint64_t> hashes(samples.size());
  bool first = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!sampled_[i]) {
      if (!first_[i].same_bits(inputs[i]))
        fail(ErrorKind::usage, "input '", ports_[i].name,
             "' has no samples along its first axis and differs from batch to batch; method auto puts samples together "
             "anew, so name a method");
      continue;
    }
    if (inputs[i].dims()[0] != count)
      fail(ErrorKind::usage, "input '", ports_[i].name, "' has ", inputs[i].dims()[0], " samples where another has ",
           count);
    add_sample_hashes(hashes, inputs[i], first);
    first = false;
    Dims dims = inputs[i].dims();
    dims[0] = 1;
    for (size_t s = 0; s < samples.size(); ++s) {
      Tensor row(inputs[i].dtype(), dims);
      std::memcpy(row.raw_mutable(), inputs[i].raw().data() + int64_t(s) * row.bytes(), size_t(row.bytes()));
      samples[s].rows.push_back(std::move(row));
    }
  }
  for (size_t s = 0; s < samples.size(); ++s) samples[s].number = samples_ + int64_t(s), samples[s].hash = hashes[s];
  return samples;
}

// `filled`: its inputs with the last sample repeated up to the size of a batch.
Batch StreamCalibration::batch_of(const std::vector<Sample>& samples, size_t begin, size_t count,
                                  std::vector<Tensor>& filled) const {
  Batch batch;
  batch.count = int64_t(count);
  for (size_t s = begin; s < begin + count; ++s) {
    batch.samples.push_back(samples[s].number);
    batch.names.push_back(concat(samples[s].number));
    batch.hashes.push_back(samples[s].hash);
  }
  filled.clear();
  for (size_t i = 0, row = 0; i < ports_.size(); ++i) {
    if (!sampled_[i]) {
      filled.push_back(first_[i]);
      batch.inputs.push_back(first_[i]);
      continue;
    }
    Dims dims = samples[begin].rows[row].dims();
    dims[0] = batch_;
    Tensor joined(ports_[i].type.dtype, dims);
    const int64_t bytes = samples[begin].rows[row].bytes();
    for (int64_t s = 0; s < batch_; ++s)
      std::memcpy(joined.raw_mutable() + s * bytes,
                  samples[begin + std::min(size_t(s), count - 1)].rows[row].raw().data(), size_t(bytes));
    batch.inputs.push_back(first_samples(joined, batch.count));
    filled.push_back(std::move(joined));
    ++row;
  }
  return batch;
}

void StreamCalibration::observe_samples(std::vector<Sample>& samples) {
  if (samples.empty()) return;
  std::vector<Tensor> filled;
  const Batch batch = batch_of(samples, 0, samples.size(), filled);
  observer_->observe(filled, batch.names, batch_);
  hashes_.insert(hashes_.end(), batch.hashes.begin(), batch.hashes.end());
  samples.clear();
}

// No batch comes any more, and what was held apart has judged.
void StreamCalibration::end() {
  if (seen_) return;
  if (!observer_) fail(ErrorKind::usage, "the calibration data are empty: no batch came");
  for (Sample& sample : held_) {
    pending_.push_back(std::move(sample));
    if (int64_t(pending_.size()) == batch_) observe_samples(pending_);
  }
  held_.clear();
  observe_samples(pending_);
  seen_ = observer_->finish(std::move(hashes_));
  seen_->batch = batch_;
  observer_.reset();
}

bool StreamCalibration::try_methods() {
  if (method_ || seen_) return false;
  if (!trials_) {
    if (observer_) observe_samples(pending_);
    std::vector<uint64_t> hashes;
    for (const Sample& sample : held_) hashes.push_back(sample.hash);
    const std::vector<size_t> places = fresh_samples(hashes_, hashes);
    if (int64_t(places.size()) < HoldApart::kLeast) {
      choice_ = {kUnjudged,
                 unjudged_text(int64_t(int64_t(held_.size()) < HoldApart::kLeast ? held_.size() : places.size())),
                 {}};
      end();
      return false;
    }
    // Copies of what was calibrated on stand behind those that judge.
    std::vector<Sample> sorted;
    for (size_t place : places) sorted.push_back(std::move(held_[place]));
    for (size_t i = 0; i < held_.size(); ++i)
      if (!std::binary_search(places.begin(), places.end(), i)) sorted.push_back(std::move(held_[i]));
    held_ = std::move(sorted);
    judges_ = places.size();
    trials_ = std::make_unique<MethodTrials>(observer_->seen(), options_.placement, options_);
  }
  const size_t count = std::min(judges_ - tried_, size_t(batch_));
  std::vector<Tensor> filled;
  const Batch batch = batch_of(held_, tried_, count, filled);
  trials_->add(batch, filled, batch_);
  tried_ += count;
  if (tried_ < judges_) return true;
  choice_ = trials_->choose();
  end();
  return false;
}

Ranges StreamCalibration::finish() {
  while (try_methods()) {}
  end();
  Ranges ranges = method_ ? make_ranges(*seen_, *method_) : make_ranges(*seen_, choice_);
  ranges.model_sha256 = model_.sha256;
  ranges.seed = seed_;
  return ranges;
}

}  // namespace temper
