// SPDX-License-Identifier: Apache-2.0
#include "calibrate/stream.h"

#include <algorithm>
#include <cstring>
#include <map>

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

// Copies of samples that came, one by one.
class StreamCalibration::KeptSamples final : public SampleStore {
 public:
  KeptSamples(const std::vector<PortInfo>& ports, const std::vector<bool>& sampled, const std::vector<Tensor>& first)
      : ports_(ports), sampled_(sampled) {
    for (size_t i = 0; i < first.size(); ++i) whole_.push_back(sampled[i] ? Tensor() : copy_of(first[i]));
  }

  // Keeps the `count` samples of a batch, of which the first has the number `number`. Throws Error{usage} where inputs
  // without samples are not those of the first batch, or inputs have different numbers of samples.
  void keep(const std::vector<Tensor>& inputs, int64_t number, int64_t count) {
    std::vector<Sample> samples(static_cast<size_t>(count));
    std::vector<uint64_t> hashes(samples.size());
    bool first = true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!sampled_[i]) {
        if (!whole_[i].same_bits(inputs[i]))
          fail(ErrorKind::usage, "input '", ports_[i].name,
               "' has no samples along its first axis and differs from batch to batch; method auto puts samples "
               "together anew, so name a method");
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
    for (size_t s = 0; s < samples.size(); ++s) {
      samples[s].hash = hashes[s];
      samples_[number + int64_t(s)] = std::move(samples[s]);
    }
  }

  uint64_t hash_of(int64_t sample) override { return samples_.at(sample).hash; }

  Batch gather(std::span<const int64_t> numbers) override {
    Batch batch;
    batch.count = int64_t(numbers.size());
    for (int64_t number : numbers) {
      batch.samples.push_back(number);
      batch.names.push_back(concat(number));
      batch.hashes.push_back(samples_.at(number).hash);
    }
    for (size_t i = 0, row = 0; i < ports_.size(); ++i) {
      if (!sampled_[i]) {
        batch.inputs.push_back(whole_[i]);
        continue;
      }
      Dims dims = samples_.at(numbers[0]).rows[row].dims();
      dims[0] = batch.count;
      Tensor& joined = batch.inputs.emplace_back(ports_[i].type.dtype, dims);
      std::byte* to = joined.raw_mutable();
      for (int64_t number : numbers) {
        const Tensor& own = samples_.at(number).rows[row];
        to = std::copy(own.raw().begin(), own.raw().end(), to);
      }
      ++row;
    }
    return batch;
  }

  void fill_up(std::vector<Tensor>& inputs, int64_t count) const override { temper::fill_up(sampled_, inputs, count); }
  void release(std::span<const int64_t> numbers) override {
    for (int64_t number : numbers) samples_.erase(number);
  }

 private:
  struct Sample {
    uint64_t hash = 0;
    std::vector<Tensor> rows;  // of every input that has samples
  };
  const std::vector<PortInfo>& ports_;
  const std::vector<bool>& sampled_;
  std::vector<Tensor> whole_;  // inputs that have none, as the first batch had them
  std::map<int64_t, Sample> samples_;
};

StreamCalibration::StreamCalibration(ImportedModel model, BuildOptions options, const std::string& method,
                                     uint64_t seed)
    : model_(std::move(model)), options_(std::move(options)), method_(method), seed_(seed), apart_(seed) {
  if (method != "auto") Method::parse(method);  // refused before any batch comes
  for (ValueId id : model_.graph.inputs()) ports_.push_back({model_.graph.value(id).name, model_.graph.type(id)});
}
StreamCalibration::~StreamCalibration() = default;

void StreamCalibration::start(const std::vector<Tensor>& inputs, int64_t count) {
  const auto counted =
      std::find_if(ports_.begin(), ports_.end(), [](const PortInfo& port) { return !port.type.shape.empty(); });
  std::map<std::string, ShapeRange> shapes;
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
    shapes[ports_[i].name] = std::move(range);
    // A first dimension that the model fixes is not that of the samples where theirs is open.
    sampled_.push_back(!shape.empty() && inputs[i].dims()[0] == inputs[size_t(counted - ports_.begin())].dims()[0] &&
                       shape[0].is_constant() == counted->type.shape[0].is_constant());
  }
  options_.replace_shapes(shapes);
  const bool automatic = method_ == "auto";
  std::unique_ptr<KeptSamples> kept;
  if (automatic) kept = std::make_unique<KeptSamples>(ports_, sampled_, inputs);
  kept_ = kept.get();
  // "auto" puts samples together anew, in batches as large as the first.
  calibration_ = std::make_unique<Calibration>(
      model_, options_,
      CalibrationSettings{.method = method_, .seed = seed_, .batch = count, .filled = automatic ? count : 0},
      std::move(kept));
}

int64_t StreamCalibration::observe(const std::vector<Tensor>& inputs) {
  if (ended_) fail(ErrorKind::usage, "the calibration has ended");
  int64_t count = 1;
  for (const Tensor& tensor : inputs)
    if (tensor.rank() > 0) {
      count = tensor.dims()[0];
      break;
    }
  if (count < 1) fail(ErrorKind::usage, "a batch of calibration data has no samples in it");
  if (!calibration_) start(inputs, count);
  if (kept_) {
    std::vector<Dims> shapes;
    shapes.reserve(inputs.size());
    for (const Tensor& tensor : inputs) shapes.push_back(tensor.dims());
    calibration_->engine().check_shapes(shapes);
    kept_->keep(inputs, samples_, count);
    for (int64_t sample = samples_; sample < samples_ + count; ++sample) {
      const int64_t place = apart_.place();
      if (place >= 0 && place == calibration_->held()) calibration_->hold(sample);
      else calibration_->add(place < 0 ? sample : calibration_->hold_instead(place, sample));
    }
  } else {
    Batch batch;
    batch.inputs = inputs;
    for (int64_t i = 0; i < count; ++i) batch.names.push_back(concat(samples_ + i));
    batch.hashes.resize(size_t(count));
    bool first = true;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (sampled_[i] && inputs[i].dims()[0] == count) {
        add_sample_hashes(batch.hashes, inputs[i], first);
        first = false;
      }
    calibration_->add_batch(batch);
  }
  samples_ += count;
  return count;
}

bool StreamCalibration::try_methods() {
  ended_ = true;
  return calibration_ && calibration_->try_methods();
}

std::vector<MethodTrial> StreamCalibration::trials() const {
  return calibration_ ? calibration_->trials() : std::vector<MethodTrial>();
}

Ranges StreamCalibration::finish() {
  ended_ = true;
  if (!calibration_) fail(ErrorKind::usage, "the calibration data are empty: no batch came");
  return calibration_->finish();
}

}  // namespace temper
