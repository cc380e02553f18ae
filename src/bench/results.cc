// SPDX-License-Identifier: Apache-2.0
#include "bench/results.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "bench/results_fields.h"
#include "bench/table.h"

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

std::optional<double> watts_of(const BenchRun& run) { return run.gpu ? run.gpu->watts_median : run.cpu_watts_mean; }

std::optional<double> joules_per_item(const BenchRun& run) {
  const auto watts = watts_of(run);
  if (!watts || !run.throughput_per_s || *run.throughput_per_s <= 0) return std::nullopt;
  return *watts / *run.throughput_per_s;
}

std::string energy_text(const BenchRun& run) {
  const auto joules = joules_per_item(run);
  if (!joules) return "n/a";
  return concat(format_number(*joules >= 1 ? *joules : 1e3 * *joules), *joules >= 1 ? " J" : " mJ", " (",
                format_number(*watts_of(run), 3), " W)");
}

bool percentile_fit_for_verdict(const BenchRun& run, std::string_view percentile) {
  const Latency& l = run.latency;
  const std::optional<double>& value = percentile == "p90" ? l.p90 : percentile == "p95" ? l.p95 : l.p99;
  return value && !run.notes.contains(concat("latency_ms.", percentile));
}

namespace {

// Visits the fields of a run: what is absent needs a note, what is there must be possible.
struct RunCheck {
  const BenchRun& run;
  const std::string& where;

  template <class... Why>
  [[noreturn]] void bad(std::string_view name, const Why&... why) const {
    fail(ErrorKind::bad_file, where, ".", name, ": ", why...);
  }
  void need_note(std::string_view name) const {
    if (!run.notes.contains(std::string(name))) bad(name, "is null, and notes do not say why");
  }
  void value(std::string_view name, double number) const {
    if (name == "drift" && !(std::isfinite(number) && number >= -1)) bad(name, "is not a relative change");
    if (name != "drift" && !(std::isfinite(number) && number >= 0)) bad(name, "not a finite number of at least 0");
  }
  void value(std::string_view name, int64_t count) const {
    if (name == "batch" || name == "streams") {
      if (count < 1) bad(name, "is below 1");
    } else if (count < 0) {
      bad(name, "is negative");
    }
  }
  void value(std::string_view, bool) const {}
  void value(std::string_view, const std::string&) const {}
  void value(std::string_view name, int count) const { value(name, int64_t(count)); }
  void value(std::string_view name, const std::vector<double>& samples) const {
    if (run.samples && int64_t(samples.size()) != *run.samples)
      bad(name, "has ", samples.size(), " values, but samples is ", *run.samples);
    for (double sample : samples) value(name, sample);
  }

  template <class T>
  void field(std::string_view, const T&) const {}
  template <class T>
  void field(std::string_view name, const std::optional<T>& optional) const {
    if (optional) value(name, *optional);
    else if (name != "request_rate_per_s") need_note(name);
  }
  void field(std::string_view name, const Latency& latency) const { check(name, latency, true); }
  void field(std::string_view, const std::optional<Latency>&) const {}
  template <class Part>
  bool has_part(std::string_view, const Part&) const {
    return false;  // their fields need no notes
  }
  void check(std::string_view name, const Latency& latency, bool noted) const;
};

struct LatencyCheck {
  const RunCheck& of;
  std::string_view prefix;
  const Latency& latency;
  bool noted;

  void field(std::string_view name, const std::optional<double>& value) const {
    const std::string whole = concat(prefix, ".", name);
    if (!value) {
      if (noted) of.need_note(whole);
      return;
    }
    of.value(whole, *value);
    // Numbers of another program may contradict each other: then its run says so itself.
    if (!of.run.imported && name != "stddev" &&
        ((latency.min && *value < *latency.min) || (latency.max && *value > *latency.max)))
      of.bad(whole, *value, " lies outside min and max");
  }
  void field(std::string_view name, const std::optional<Interval>& interval) const {
    const std::string whole = concat(prefix, ".", name);
    if (!interval && noted && name == "median_ci95") of.need_note(whole);
    if (interval && !(interval->low >= 0 && interval->low <= interval->high)) of.bad(whole, "is not an interval");
  }
};

void RunCheck::check(std::string_view name, const Latency& latency, bool noted) const {
  const LatencyCheck visitor{*this, name, latency, noted};
  json_fields(visitor, latency);
}

void check_run(const BenchRun& run, const std::string& where) {
  const RunCheck visitor{run, where};
  if (run.model.empty()) visitor.bad("model", "is empty");
  for (const auto& [name, hash] : {std::pair{"model_sha256", &run.model_sha256}, {"source_sha256", &run.source_sha256}})
    if (*hash && !is_sha256_hex(**hash)) visitor.bad(name, "is not a SHA-256 in lower-case hexadecimal digits");
  if (run.load != "closed" && run.load != "open") visitor.bad("load", "is '", run.load, "'; it must be closed or open");
  if ((run.load == "open") != run.request_rate_per_s.has_value())
    visitor.bad("request_rate_per_s", "belongs to an open load, and only there");
  if (run.transfers && *run.transfers != "none" && *run.transfers != "included" && *run.transfers != "excluded")
    visitor.bad("transfers", "is '", *run.transfers, "'; it must be none, included or excluded");
  for (const auto& [name, dims] : run.shapes)
    for (int64_t dim : dims)
      if (dim < 0) visitor.bad("shapes", "input '", name, "' has a negative dimension");
  json_fields(visitor, run);
  if (run.cpu_watts_mean) visitor.value("cpu_watts_mean", *run.cpu_watts_mean);
  if (!run.imported) return;
  const ImportedRun& from = *run.imported;
  if (from.source.empty()) visitor.bad("source", "is empty");
  for (const auto& [name, value] : {std::pair{"throughput_qps", from.throughput_qps}, {"walltime_s", from.walltime_s}})
    if (value) visitor.value(name, *value);
  for (const auto& [name, value] : {std::pair{"gpu_ms", &from.gpu},
                                    {"h2d_ms", &from.h2d},
                                    {"d2h_ms", &from.d2h},
                                    {"enqueue_ms", &from.enqueue},
                                    {"end_to_end_ms", &from.end_to_end}})
    if (*value) visitor.check(name, **value, false);
}

}  // namespace

void check(const BenchResult& result) {
  for (size_t i = 0; i < result.runs.size(); ++i) check_run(result.runs[i], concat("runs[", i, "]"));
}

}  // namespace temper
