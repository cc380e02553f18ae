// SPDX-License-Identifier: Apache-2.0
#include "bench/results.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace temper {

void set_samples(BenchRun& run, const Samples& samples) {
  const std::vector<double>& ms = samples.ms;
  run.samples = int64_t(ms.size());
  run.samples_ms = ms;
  run.warmup_runs = samples.warmup_runs;
  run.first_run_ms = samples.first_run_ms;
  Latency& latency = run.latency;
  latency.median = median(ms);
  latency.mean = mean(ms);
  latency.min = *std::min_element(ms.begin(), ms.end());
  latency.max = *std::max_element(ms.begin(), ms.end());
  latency.stddev = standard_deviation(ms);
  auto set_percentile = [&](std::optional<double>& field, const char* name, double p) {
    const Percentile value = reliable_percentile(ms, p);
    field = value.value;
    if (!value.value) run.notes[concat("latency_ms.", name)] = value.reason;
  };
  set_percentile(latency.p90, "p90", 0.90);
  set_percentile(latency.p95, "p95", 0.95);
  set_percentile(latency.p99, "p99", 0.99);
  latency.median_ci95 = median_interval(ms);
  if (!latency.median_ci95) run.notes["latency_ms.median_ci95"] = "n/a (needs ≥ 6 samples)";
  if (*latency.mean > 0) run.throughput_per_s = double(run.batch) * 1e3 / *latency.mean;
  else run.notes["throughput_per_s"] = "the clock showed no time passing";

  std::string how = concat("stopped: ", name_of(samples.stop));
  if (std::isfinite(samples.relative_error))
    how += concat(", relative error of the median ", std::round(samples.relative_error * 1e5) / 1e3, " %");
  if (samples.fixed_counts) how += "; counts were fixed, the stopping rule was off";
  run.notes["samples"] = how;
  if (!samples.warmup_stable) run.notes["warmup_runs"] = "the time for warming up ended while runs still got faster";
  if (samples.calls_per_sample > 1)
    run.notes["samples_ms"] =
        concat("each is the mean of ", samples.calls_per_sample, " calls, because one is shorter than ", kShortMs,
               " ms; reading the clock takes ", samples.timer_overhead_ms * 1e6, " ns");
}

namespace {

void check_run(const BenchRun& run, const std::string& where) {
  auto bad = [&](std::string_view name, const auto&... why) { fail(ErrorKind::bad_file, where, ".", name, ": ", why...); };
  auto number = [&](std::string_view name, const std::optional<double>& value) {
    if (value && !(std::isfinite(*value) && *value >= 0)) bad(name, "not a finite number of at least 0");
    if (!value && !run.notes.contains(std::string(name))) bad(name, "is null, and notes do not say why");
  };
  auto present = [&](std::string_view name, bool has) {
    if (!has && !run.notes.contains(std::string(name))) bad(name, "is null, and notes do not say why");
  };
  auto bytes = [&](std::string_view name, const std::optional<int64_t>& value) {
    present(name, value.has_value());
    if (value && *value < 0) bad(name, "is negative");
  };
  if (run.model.empty()) bad("model", "is empty");
  present("model_sha256", run.model_sha256.has_value());
  if (run.model_sha256 &&
      (run.model_sha256->size() != 64 || run.model_sha256->find_first_not_of("0123456789abcdef") != std::string::npos))
    bad("model_sha256", "is not a SHA-256 in lower-case hexadecimal digits");
  if (run.batch < 1) bad("batch", "is below 1");
  if (run.threads < 0) bad("threads", "is negative");
  if (run.samples < 0) bad("samples", "is negative");
  if (run.warmup_runs < 0) bad("warmup_runs", "is negative");
  if (run.transfers != "none" && run.transfers != "included" && run.transfers != "excluded")
    bad("transfers", "is '", run.transfers, "'; it must be none, included or excluded");
  for (const auto& [name, dims] : run.shapes)
    for (int64_t dim : dims)
      if (dim < 0) bad("shapes", "input '", name, "' has a negative dimension");
  number("first_run_ms", run.first_run_ms);
  const Latency& l = run.latency;
  const std::pair<const char*, const std::optional<double>*> fields[] = {
      {"latency_ms.median", &l.median}, {"latency_ms.mean", &l.mean}, {"latency_ms.min", &l.min},
      {"latency_ms.max", &l.max},       {"latency_ms.stddev", &l.stddev}, {"latency_ms.p90", &l.p90},
      {"latency_ms.p95", &l.p95},       {"latency_ms.p99", &l.p99}};
  for (const auto& [name, value] : fields) number(name, *value);
  for (const auto& [name, value] : fields)
    if (std::string_view(name) != "latency_ms.stddev" && *value && ((l.min && **value < *l.min) || (l.max && **value > *l.max)))
      bad(name, **value, " lies outside min and max");
  present("latency_ms.median_ci95", l.median_ci95.has_value());
  if (l.median_ci95 && !(l.median_ci95->low >= 0 && l.median_ci95->low <= l.median_ci95->high))
    bad("latency_ms.median_ci95", "is not an interval");
  number("throughput_per_s", run.throughput_per_s);
  bytes("peak_host_bytes", run.peak_host_bytes);
  bytes("peak_device_bytes", run.peak_device_bytes);
  bytes("plan_bytes", run.plan_bytes);
  number("build_s", run.build_s);
  present("samples_ms", run.samples_ms.has_value());
  if (run.samples_ms) {
    if (int64_t(run.samples_ms->size()) != run.samples)
      bad("samples_ms", "has ", run.samples_ms->size(), " values, but samples is ", run.samples);
    for (double value : *run.samples_ms) number("samples_ms", value);
  }
}

}  // namespace

void check(const BenchResult& result) {
  for (size_t i = 0; i < result.runs.size(); ++i) check_run(result.runs[i], concat("runs[", i, "]"));
}

}  // namespace temper
