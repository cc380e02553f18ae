// SPDX-License-Identifier: Apache-2.0
#include "bench/results.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"

namespace temper {

void set_series(BenchRun& run) {
  run.notes.erase("outliers");
  run.notes.erase("drift");
  run.outliers = count_outliers(*run.samples_ms);
  const std::optional<Drift> drift = drift_of(*run.samples_ms);
  if (!drift) run.notes["drift"] = "n/a (needs ≥ 12 samples)";
  else run.drift = drift->change;
  if (drift && drift->named)
    run.notes["drift"] =
        concat("named: the last third of the samples is ", std::round(std::abs(drift->change) * 1000) / 10, " % ",
               drift->change > 0 ? "slower" : "faster", " than the first");
}

Latency latency_of(const std::vector<double>& ms) {
  Latency latency;
  latency.median = median(ms);
  latency.mean = mean(ms);
  latency.min = *std::min_element(ms.begin(), ms.end());
  latency.max = *std::max_element(ms.begin(), ms.end());
  latency.stddev = standard_deviation(ms);
  latency.median_ci95 = median_interval_in_order(ms);
  latency.mean_ci95 = mean_interval_in_order(ms);
  const auto set_percentile = [&](std::optional<double>& field, std::optional<Interval>& interval, double p) {
    field = reliable_percentile(ms, p).value;
    if (field) interval = percentile_interval_in_order(ms, p);
  };
  set_percentile(latency.p90, latency.p90_ci95, 0.90);
  set_percentile(latency.p95, latency.p95_ci95, 0.95);
  set_percentile(latency.p99, latency.p99_ci95, 0.99);
  return latency;
}

std::string why_no_median_interval(const std::vector<double>& ms) {
  const size_t independent = size_t(double(ms.size()) / correlation_time(ms));
  if (ms.size() < 6 || independent == ms.size()) return "n/a (needs ≥ 6 samples)";
  return concat("n/a (each sample tells of the next: ", ms.size(), " are worth ", independent, ", it needs ≥ 6)");
}

void set_samples(BenchRun& run, const Samples& samples) {
  const std::vector<double>& ms = samples.ms;
  run.samples = int64_t(ms.size());
  run.samples_ms = ms;
  run.warmup_runs = samples.warmup_runs;
  run.first_run_ms = samples.first_run_ms;
  const Latency& latency = run.latency = latency_of(ms);
  for (const auto& [name, value, p] :
       {std::tuple{"p90", &latency.p90, 0.90}, {"p95", &latency.p95, 0.95}, {"p99", &latency.p99, 0.99}})
    if (!*value) run.notes[concat("latency_ms.", name)] = reliable_percentile(ms, p).reason;
  if (!latency.median_ci95) run.notes["latency_ms.median_ci95"] = why_no_median_interval(ms);
  set_series(run);
  if (samples.requests_per_s) {
    run.load = "open";
    run.request_rate_per_s = samples.requests_per_s;
  }
  constexpr double kServed = 0.97;
  if (samples.arrivals_per_s && *samples.runs_per_s < kServed * *samples.arrivals_per_s)
    run.notes["throughput_per_s"] =
        concat("the queue grew: ", std::round(10 * *samples.runs_per_s) / 10, " of ",
               std::round(10 * *samples.arrivals_per_s) / 10,
               " requests a second were served, so latencies only tell how long this was measured");
  if (samples.runs_per_s) run.throughput_per_s = double(run.batch.value()) * *samples.runs_per_s;
  else if (*latency.mean > 0) run.throughput_per_s = double(run.batch.value()) * 1e3 / *latency.mean;
  else run.notes["throughput_per_s"] = "the clock showed no time passing";

  std::string how = concat("stopped: ", name_of(samples.stop));
  if (std::isfinite(samples.relative_error))
    how += concat(", relative error of the median ", std::round(samples.relative_error * 1e5) / 1e3, " %");
  if (samples.fixed_counts) how += "; counts were fixed, the stopping rule was off";
  if (samples.unserved) how += concat("; ", samples.unserved, " requests were given up, their latency is missing here");
  run.notes["samples"] = how;
  if (!samples.warmup_stable) run.notes["warmup_runs"] = "the time for warming up ended while runs still got faster";
  if (samples.calls_per_sample > 1)
    run.notes["samples_ms"] =
        concat("each is the mean of ", samples.calls_per_sample, " calls, because one is shorter than ", kShortMs,
               " ms; reading the clock takes ", samples.timer_overhead_ms * 1e6, " ns");
  else if (samples.timer_overhead_ms > 0.002 * *latency.median)
    run.notes["samples_ms"] =
        concat("each holds the ", samples.timer_overhead_ms * 1e6, " ns that reading the clock takes");
}

std::string unfit_for_verdict(const BenchRun& run) {
  const auto drift = run.notes.find("drift");
  if (run.drift && drift != run.notes.end()) return concat("it drifts: ", std::string_view(drift->second).substr(7));
  if (!run.imported || run.imported->consistent != false) return "";
  return concat("the numbers imported from ", run.imported->source, " contradict each other",
                run.imported->warnings.empty() ? "" : concat(": ", run.imported->warnings[0]));
}

bool percentile_fit_for_verdict(const BenchRun& run, std::string_view percentile) {
  const Latency& l = run.latency;
  const std::optional<double>& value = percentile == "p90" ? l.p90 : percentile == "p95" ? l.p95 : l.p99;
  return value && !run.notes.contains(concat("latency_ms.", percentile));
}

namespace {

void check_run(const BenchRun& run, const std::string& where) {
  auto bad = [&](std::string_view name, const auto&... why) {
    fail(ErrorKind::bad_file, where, ".", name, ": ", why...);
  };
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
  for (const auto& [name, hash] : {std::pair{"model_sha256", &run.model_sha256}, {"source_sha256", &run.source_sha256}})
    if (*hash && !is_sha256_hex(**hash)) bad(name, "is not a SHA-256 in lower-case hexadecimal digits");
  present("source_sha256", run.source_sha256.has_value());
  present("command", run.command.has_value());
  present("precision", run.precision.has_value());
  auto count = [&](std::string_view name, const auto& value, int64_t least, std::string_view otherwise) {
    present(name, value.has_value());
    if (value && *value < least) bad(name, otherwise);
  };
  count("batch", run.batch, 1, "is below 1");
  count("threads", run.threads, 0, "is negative");
  count("streams", run.streams, 1, "is below 1");
  if (run.load != "closed" && run.load != "open") bad("load", "is '", run.load, "'; it must be closed or open");
  if ((run.load == "open") != run.request_rate_per_s.has_value())
    bad("request_rate_per_s", "belongs to an open load, and only there");
  if (run.request_rate_per_s) number("request_rate_per_s", run.request_rate_per_s);
  count("outliers", run.outliers, 0, "is negative");
  present("drift", run.drift.has_value());
  if (run.drift && !(std::isfinite(*run.drift) && *run.drift >= -1)) bad("drift", "is not a relative change");
  number("load_by_others", run.load_by_others);
  bytes("workspace_bytes", run.workspace_bytes);
  count("samples", run.samples, 0, "is negative");
  count("warmup_runs", run.warmup_runs, 0, "is negative");
  present("transfers", run.transfers.has_value());
  if (run.transfers && *run.transfers != "none" && *run.transfers != "included" && *run.transfers != "excluded")
    bad("transfers", "is '", *run.transfers, "'; it must be none, included or excluded");
  present("cuda_graph", run.cuda_graph.has_value());
  for (const auto& [name, dims] : run.shapes)
    for (int64_t dim : dims)
      if (dim < 0) bad("shapes", "input '", name, "' has a negative dimension");
  number("first_run_ms", run.first_run_ms);
  auto latency = [&](const std::string& prefix, const Latency& l, bool noted) {
    const std::pair<const char*, const std::optional<double>*> fields[] = {
        {"median", &l.median}, {"mean", &l.mean}, {"min", &l.min}, {"max", &l.max},
        {"stddev", &l.stddev}, {"p90", &l.p90},   {"p95", &l.p95}, {"p99", &l.p99}};
    for (const auto& [name, value] : fields)
      if (noted || *value) number(concat(prefix, ".", name), *value);
    // Numbers of another program may contradict each other: then its run says so itself.
    for (const auto& [name, value] : fields)
      if (!run.imported && std::string_view(name) != "stddev" && *value &&
          ((l.min && **value < *l.min) || (l.max && **value > *l.max)))
        bad(concat(prefix, ".", name), **value, " lies outside min and max");
    if (noted) present(prefix + ".median_ci95", l.median_ci95.has_value());
    for (const auto& [name, interval] : {std::pair{"median_ci95", &l.median_ci95},
                                         {"mean_ci95", &l.mean_ci95},
                                         {"p90_ci95", &l.p90_ci95},
                                         {"p95_ci95", &l.p95_ci95},
                                         {"p99_ci95", &l.p99_ci95}})
      if (*interval && !((*interval)->low >= 0 && (*interval)->low <= (*interval)->high))
        bad(concat(prefix, ".", name), "is not an interval");
  };
  latency("latency_ms", run.latency, true);
  if (run.imported) {
    const ImportedRun& from = *run.imported;
    if (from.source.empty()) bad("source", "is empty");
    for (const auto& [name, value] :
         {std::pair{"throughput_qps", from.throughput_qps}, {"walltime_s", from.walltime_s}})
      if (value) number(name, value);
    for (const auto& [name, value] : {std::pair{"gpu_ms", &from.gpu},
                                      {"h2d_ms", &from.h2d},
                                      {"d2h_ms", &from.d2h},
                                      {"enqueue_ms", &from.enqueue},
                                      {"end_to_end_ms", &from.end_to_end}})
      if (*value) latency(name, **value, false);
  }
  number("throughput_per_s", run.throughput_per_s);
  bytes("peak_host_bytes", run.peak_host_bytes);
  bytes("peak_device_bytes", run.peak_device_bytes);
  bytes("plan_bytes", run.plan_bytes);
  number("build_s", run.build_s);
  present("samples_ms", run.samples_ms.has_value());
  if (run.samples_ms) {
    if (run.samples && int64_t(run.samples_ms->size()) != *run.samples)
      bad("samples_ms", "has ", run.samples_ms->size(), " values, but samples is ", *run.samples);
    for (double value : *run.samples_ms) number("samples_ms", value);
  }
}

}  // namespace

void check(const BenchResult& result) {
  for (size_t i = 0; i < result.runs.size(); ++i) check_run(result.runs[i], concat("runs[", i, "]"));
}

}  // namespace temper
