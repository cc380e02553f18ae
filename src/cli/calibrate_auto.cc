// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate_auto.h"

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "build/trial.h"
#include "cli/evaluate_run.h"
#include "data/sample.h"

namespace temper::cli {

namespace {

constexpr const char* kMethods[] = {"entropy", "percentile:99.9", "percentile:99.99", "percentile:99.999", "mse", "minmax"};
constexpr int64_t kMostHeldApart = 500;  // a difference of one sample is 0.2 % of the agreement then

// The place of the best.
size_t choose(const std::vector<Evaluation>& results) {
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

HeldApart hold_apart(const std::vector<int64_t>& samples, uint64_t seed) {
  const int64_t count = int64_t(samples.size());
  if (count < 10) fail(ErrorKind::usage, "--method auto holds a fifth of the samples apart to judge by, and needs ten samples at least, not ", count, "; name a method");
  const std::vector<int64_t> places = choose_samples(count, std::min(count / 5, kMostHeldApart), seed + 1);
  HeldApart parts;
  for (int64_t i = 0; i < count; ++i) (std::binary_search(places.begin(), places.end(), i) ? parts.held_apart : parts.calibration).push_back(samples[size_t(i)]);
  return parts;
}

MethodChoice choose_method(const Observation& seen, const Dataset& data, const std::vector<int64_t>& held_apart, const BuildOptions& options, const Context& context) {
  MethodChoice choice;
  choice.sample_hashes = seen.sample_hashes;
  std::vector<int64_t> fresh;
  for (int64_t sample : held_apart) {
    const uint64_t hash = data.batch(sample, 1).hashes.at(0);
    if (std::binary_search(seen.sample_hashes.begin(), seen.sample_hashes.end(), hash)) continue;
    fresh.push_back(sample);
    choice.sample_hashes.push_back(hash);
  }
  std::sort(choice.sample_hashes.begin(), choice.sample_hashes.end());
  choice.sample_hashes.erase(std::unique(choice.sample_hashes.begin(), choice.sample_hashes.end()), choice.sample_hashes.end());
  if (fresh.empty()) fail(ErrorKind::usage, "--method auto: every sample held apart has the content of one that was calibrated on; give samples that differ, or name a method");

  BuildOptions trial = options;
  trial.shapes = seen.shapes;
  const auto reference = trial_engine(seen.graph, trial);
  std::vector<std::shared_ptr<const Engine>> engines;
  for (const char* name : kMethods) {
    Ranges ranges;
    std::vector<std::string> warnings;  // those of the method chosen are given with its ranges
    for (const std::string& value : seen.order) ranges.values[value] = make_range(value, Method::parse(name), seen.values.at(value), warnings);
    engines.push_back(trial_int8(seen.graph, ranges, options.placement, trial));
  }
  const EvaluationData what{data, fresh, {seen.batch, seen.batch}, ""};
  // The truth does not matter here, and may not be known.
  const std::vector<Evaluation> results = evaluate_engines(what, reference, engines, context, true);
  const size_t best = choose(results);
  choice.method = Method::parse(kMethods[best]);
  Table table{{{"method", false}, {"agreement with FP32"}, {"cosine"}, {"SNR"}, {"", false}}, {}};
  for (size_t i = 0; i < results.size(); ++i) {
    const Evaluation& e = results[i];
    double cosine = 1;
    for (const OutputDifference& d : e.differences) cosine = std::min(cosine, d.cosine());
    const double db = -10 * std::log10(worst_noise_share(e));
    table.rows.push_back({kMethods[i], e.agreement ? concat(percent_text(e.agreement->rate()), " (", e.agreement->same, " of ", e.agreement->n, ")") : "n/a", format_number(cosine, 6), decibel_text(db), i == best ? "chosen" : ""});
    choice.json.push_back({{"method", kMethods[i]}, {"agreement", e.agreement ? nlohmann::ordered_json(e.agreement->rate()) : nullptr}, {"cosine", cosine}, {"snr_db", std::isfinite(db) ? nlohmann::ordered_json(db) : nullptr}, {"chosen", i == best}});
  }
  if (!context.json) std::printf("%s\n", terminal_table(table).c_str());
  choice.text = concat("auto chose ", kMethods[best], " on ", fresh.size(), " samples held apart", results[best].agreement ? concat(": agreement with FP32 ", percent_text(results[best].agreement->rate())) : "");
  return choice;
}

Ranges calibrate_on(const ImportedModel& model, const Dataset& data, const std::vector<int64_t>& samples, const std::string& method, const CalibrationSettings& settings, const BuildOptions& options,
                    const Context& context, nlohmann::ordered_json* trials) {
  Ranges ranges;
  if (method == "auto") {
    const HeldApart parts = hold_apart(samples, settings.seed);
    const Observation seen = observe_samples(model, data, {parts.calibration, settings.batch}, options, context);
    const MethodChoice choice = choose_method(seen, data, parts.held_apart, options, context);
    ranges = make_ranges(seen, choice.method);
    // Chosen by them, so the plan must not be judged by them either.
    ranges.sample_hashes = choice.sample_hashes;
    ranges.notes.push_back(choice.text);
    if (trials) *trials = choice.json;
  } else {
    const Method named = Method::parse(method);
    ranges = make_ranges(observe_samples(model, data, {samples, settings.batch}, options, context), named);
  }
  ranges.model_sha256 = model.sha256;
  ranges.seed = settings.seed;
  return ranges;
}

}  // namespace temper::cli
