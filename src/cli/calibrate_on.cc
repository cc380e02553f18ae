// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate_on.h"

#include <cstdio>

#include "base/log.h"
#include "cli/evaluate_run.h"
#include "data/sample.h"

namespace temper::cli {

namespace {

MethodChoice choose_method(const Observation& seen, const Dataset& data, const std::vector<int64_t>& held_apart, const BuildOptions& options, const Context& context) {
  std::vector<uint64_t> hashes;
  for (int64_t sample : held_apart) hashes.push_back(data.batch(sample, 1).hashes.at(0));
  std::vector<int64_t> fresh;
  for (size_t place : fresh_samples(seen, hashes)) fresh.push_back(held_apart[place]);
  MethodTrials trials(seen, options.placement, options);
  for_each_batch(data, fresh, {seen.batch, seen.batch}, "trying the methods on", context, [&](const Batch& batch) {
    std::vector<Tensor> inputs = batch.inputs;
    fill_up(data, inputs, seen.batch);
    trials.add(batch, inputs, seen.batch);
  });
  const MethodChoice choice = trials.choose();
  Table table{{{"method", false}, {"agreement with FP32"}, {"cosine"}, {"SNR"}, {"", false}}, {}};
  for (const MethodTrial& trial : choice.trials)
    table.rows.push_back({trial.method, trial.agreement ? concat(percent_text(trial.agreement->rate()), " (", trial.agreement->same, " of ", trial.agreement->n, ")") : "n/a",
                          format_number(trial.cosine, 6), decibel_text(trial.snr_db), trial.chosen ? "chosen" : ""});
  if (!context.json) std::printf("%s\n", terminal_table(table).c_str());
  return choice;
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
  apart.check();
  for (size_t i = 0; i < samples.size(); ++i) (held[i] ? parts.held_apart : parts.calibration).push_back(samples[i]);
  return parts;
}

Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples, const std::string& method, const CalibrationSettings& settings, const BuildOptions& options,
                    const Context& context, std::vector<MethodTrial>* trials) {
  Ranges ranges;
  if (method == "auto") {
    const ApartSamples parts = hold_apart(samples, settings.seed);
    const Observation seen = observe_samples(model, data, {parts.calibration, settings.batch}, options, context);
    const MethodChoice choice = choose_method(seen, data, parts.held_apart, options, context);
    ranges = make_ranges(seen, choice);
    if (trials) *trials = choice.trials;
  } else {
    const Method named = Method::parse(method);
    ranges = make_ranges(observe_samples(model, data, {samples, settings.batch}, options, context), named);
  }
  ranges.model_sha256 = model.sha256;
  ranges.seed = settings.seed;
  return ranges;
}

}  // namespace temper::cli
