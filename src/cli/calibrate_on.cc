// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate_on.h"

#include "base/log.h"
#include "cli/batches.h"
#include "data/sample.h"

namespace temper::cli {

namespace {

// Those whose content was not calibrated on.
std::vector<int64_t> fresh_of(const SampleObserver& observer, const Dataset& data,
                              const std::vector<int64_t>& held_apart) {
  std::vector<uint64_t> hashes;
  for (int64_t sample : held_apart) hashes.push_back(data.batch(sample, 1).hashes.at(0));
  std::vector<int64_t> fresh;
  for (size_t place : fresh_samples(observer.hashes(), hashes)) fresh.push_back(held_apart[place]);
  return fresh;
}

MethodChoice choose_method(const SampleObserver& observer, const Dataset& data, const std::vector<int64_t>& fresh,
                           const BuildOptions& options, const Context& context) {
  const int64_t batch_size = observer.batch();
  MethodTrials trials(observer.seen(), options.placement, options);
  for_each_batch(data, fresh, {batch_size, batch_size}, "trying the methods on", context, [&](const Batch& batch) {
    std::vector<Tensor> inputs = batch.inputs;
    fill_up(data, inputs, batch_size);
    trials.add(batch, inputs, batch_size);
  });
  return trials.choose();
}

}  // namespace

ApartSamples hold_apart(const std::vector<int64_t>& samples, uint64_t seed) {
  HoldApart apart(seed);
  ApartSamples parts;
  std::vector<bool> held(samples.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t place = apart.place();
    if (place < 0) continue;
    if (place == int64_t(places.size())) places.push_back(i);
    else held[places[size_t(place)]] = false, places[size_t(place)] = i;
    held[i] = true;
  }
  for (size_t i = 0; i < samples.size(); ++i) (held[i] ? parts.held_apart : parts.calibration).push_back(samples[i]);
  return parts;
}

Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples,
                    const std::string& method, const CalibrationSettings& settings, const BuildOptions& options,
                    const Context& context, std::vector<MethodTrial>* trials) {
  Ranges ranges;
  if (method == "auto") {
    ApartSamples parts = hold_apart(samples, settings.seed);
    const auto held = int64_t(parts.held_apart.size());
    if (held < HoldApart::kLeast) parts = {samples, {}};
    SampleObserver observer(model, data, {parts.calibration, parts.held_apart}, settings.batch, options, context);
    observer.observe(0);
    const std::vector<int64_t> fresh = fresh_of(observer, data, parts.held_apart);
    const bool judged = int64_t(fresh.size()) >= HoldApart::kLeast;
    const MethodChoice choice =
        judged ? choose_method(observer, data, fresh, options, context)
               : MethodChoice{kUnjudged, unjudged_text(held < HoldApart::kLeast ? held : int64_t(fresh.size())), {}};
    observer.observe(1);
    ranges = make_ranges(observer.finish(), choice);
    if (trials) *trials = choice.trials;
  } else {
    const Method named = Method::parse(method);
    SampleObserver observer(model, data, {samples}, settings.batch, options, context);
    observer.observe(0);
    ranges = make_ranges(observer.finish(), named);
  }
  ranges.model_sha256 = model.sha256;
  ranges.seed = settings.seed;
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

}  // namespace temper::cli
