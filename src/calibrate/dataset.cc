// SPDX-License-Identifier: Apache-2.0
#include "calibrate/dataset.h"

#include <algorithm>

#include "base/log.h"
#include "data/sample.h"
#include "data/tokens.h"
#include "graph/random.h"
#include "quantize/observe.h"

namespace temper {

namespace {

constexpr int64_t kMostBytes = int64_t(256) << 20;  // of all values of a batch: they are outputs, so all live at once

int64_t observed_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId id : observed_values(graph))
    if (graph.type(id).is_concrete()) bytes += byte_count(DType::f32, graph.type(id).dims());
  return bytes;
}

class DatasetSamples final : public SampleStore {
 public:
  explicit DatasetSamples(const Dataset& data) : data_(data) {}
  uint64_t hash_of(int64_t sample) override { return data_.batch(sample, 1).hashes.at(0); }
  Batch gather(std::span<const int64_t> samples) override { return gather_batch(data_, samples); }
  void fill_up(std::vector<Tensor>& inputs, int64_t count) const override { temper::fill_up(data_, inputs, count); }

 private:
  const Dataset& data_;
};

struct SampleSplit {
  std::vector<int64_t> calibration, held_out;
};
SampleSplit hold_out(const std::vector<int64_t>& samples, uint64_t seed) {
  HoldApart apart(seed);
  SampleSplit parts;
  std::vector<bool> held(samples.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t place = apart.place();
    if (place < 0) continue;
    if (place == int64_t(places.size())) places.push_back(i);
    else held[places[size_t(place)]] = false, places[size_t(place)] = i;
    held[i] = true;
  }
  for (size_t i = 0; i < samples.size(); ++i) (held[i] ? parts.held_out : parts.calibration).push_back(samples[i]);
  return parts;
}

// Sets the size of batches, and the shapes of the options: those of the samples, in batches of that size and as small
// as the last one of each part.
void fit_batches(const Graph& graph, const Dataset& data, const SampleSplit& parts, CalibrationSettings& settings,
                 BuildOptions& options) {
  const std::vector<Tensor> sample = data.batch(parts.calibration.at(0), 1).inputs;
  const auto count = int64_t(parts.calibration.size());
  int64_t fixed = 0;  // the model's own batch, 0 where it is open
  int64_t& batch = settings.batch;
  for (size_t i = 0; i < sample.size(); ++i)
    if (data.has_samples(i))
      if (const Dim& dim = graph.type(graph.inputs()[i]).shape[0]; dim.is_constant()) fixed = dim.value();
  if (fixed && batch && batch != fixed)
    fail(ErrorKind::usage, "the model takes batches of ", fixed, ", not of ", batch, "; leave --batch out");
  if (fixed) {
    batch = fixed;
  } else if (batch) {
    batch = std::min(count, batch);
  } else {
    // As imported, more values exist than are observed later: the estimate is on the safe side.
    std::vector<Dims> dims;
    dims.reserve(sample.size());
    for (const Tensor& input : sample) dims.push_back(input.dims());
    const int64_t bytes = observed_bytes(specialize(graph, bind_shapes(graph, dims)));
    batch = std::clamp<int64_t>(kMostBytes / std::max<int64_t>(bytes, 1), 1, std::min<int64_t>(count, 32));
  }
  settings.filled = fixed;
  int64_t rest = batch;  // the smallest batch
  for (const auto* part : {&parts.calibration, &parts.held_out})
    if (const int64_t last = int64_t(part->size()) % batch; last && !fixed) rest = std::min(rest, last);
  std::map<std::string, ShapeRange> shapes;
  for (size_t i = 0; i < sample.size(); ++i) {
    Dims dims = sample[i].dims(), least = dims;
    if (data.has_samples(i)) dims[0] = batch, least[0] = rest;
    shapes[graph.value(graph.inputs()[i]).name] = {least, dims, dims};
  }
  options.replace_shapes(shapes);
}

}  // namespace

Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples,
                    const DatasetCalibration& settings, BuildOptions options, std::vector<MethodTrial>* trials) {
  check_vocabulary(model.graph, data, samples);
  const bool automatic = settings.method == "auto";
  SampleSplit parts = automatic ? hold_out(samples, settings.seed) : SampleSplit{samples, {}};
  const auto held = int64_t(parts.held_out.size());
  const bool judged = automatic && held >= HoldApart::kLeast;
  if (!judged) parts = {samples, {}};
  CalibrationSettings all{.method = settings.method,
                          .seed = settings.seed,
                          .batch = settings.batch,
                          .expected = int64_t(samples.size()),
                          .progress = settings.progress};
  fit_batches(model.graph, data, parts, all, options);
  if (settings.share.of > 1) {
    if (automatic) fail(ErrorKind::usage, "parts that each chose a method could not be joined: name one");
    parts.calibration = share_of(parts.calibration, all.batch, settings.share);
    if (parts.calibration.empty()) return {};
    all.expected = int64_t(parts.calibration.size());
  }
  Calibration calibration(model, std::move(options), std::move(all), std::make_unique<DatasetSamples>(data));
  if (automatic && !judged) calibration.judge_by_nothing(held);
  for (int64_t sample : parts.calibration) calibration.add(sample);
  for (int64_t sample : parts.held_out) calibration.hold(sample);
  Ranges ranges = calibration.finish();
  ranges.preprocess = data.preprocess();
  if (trials) *trials = calibration.trials();
  return ranges;
}

Ranges calibrate_on_noise(const ImportedModel& model, int64_t samples, const std::string& method, uint64_t seed,
                          BuildOptions options, const Progress& progress) {
  Calibration calibration(model, std::move(options), {.method = method, .seed = seed}, nullptr);
  const Engine& engine = calibration.engine();
  for (int64_t s = 0; s < samples; ++s) {
    tell(progress, {"calibrating on noise", double(s), double(samples), "samples"});
    Batch batch;
    batch.names = {concat(s)};
    for (const PortInfo& port : engine.inputs())
      batch.inputs.push_back(random_tensor(port.type.dtype, engine.info().shapes.at(port.name).opt,
                                           seed + uint64_t(s) * engine.inputs().size() + batch.inputs.size()));
    calibration.add_batch(batch);
  }
  Ranges ranges = calibration.finish();
  ranges.placeholder = true;
  ranges.notes.insert(ranges.notes.begin(),
                      "calibrated on noise: these ranges are fit for measuring speed, and meaningless for accuracy");
  return ranges;
}

void log_notes(const std::vector<std::string>& notes) {
  constexpr int kMost = 5;
  int tensors = 0;
  for (const std::string& note : notes)
    if (note.starts_with("auto ")) log(LogLevel::info, note);
    else if (!note.starts_with("the tensor '") || ++tensors <= kMost) log(LogLevel::warning, note);
  if (tensors > kMost)
    log(LogLevel::warning, tensors - kMost, " more tensors have a note like these; the ranges have them all");
}

}  // namespace temper
