// SPDX-License-Identifier: Apache-2.0
// The result file, schema "temper.result/1". docs/results.md has one line per field.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/environment.h"
#include "measure/statistics.h"
#include "measure/timer.h"

namespace temper {

constexpr std::string_view kResultSchema = "temper.result/1";

// Milliseconds. Percentiles are nearest ranks and absent without enough samples (measure/statistics.h).
struct Latency {
  std::optional<double> median, mean, min, max, stddev, p90, p95, p99;
  // Intervals of the figures that they are named after; absent where those are, or where the samples are too few. Only
  // the first needs a note then.
  std::optional<Interval> median_ci95, mean_ci95, p90_ci95, p95_ci95, p99_ci95;
};

// The further fields of a run that another program measured. They stand in the run's object and only there. Fields are
// absent where its log does not say them.
struct ImportedRun {
  std::string source;  // "trtexec 8.6.1: LOG"
  std::optional<std::string> tensorrt_version, device_name;
  std::optional<double> throughput_qps;  // as the log has it; items only for implicit batches
  std::optional<double> walltime_s;
  std::optional<Latency> gpu, h2d, d2h, enqueue, end_to_end;  // "gpu_ms", ...
  std::optional<bool> spin_wait;
  std::optional<bool> consistent;     // whether its numbers agree with each other; absent: too few of them to tell
  std::vector<std::string> warnings;  // those of the checks, then those of the log itself
};

// The state of a GPU while a run was measured on it, as NVML says (every 20 ms). The fields stand in the run's object
// and only in runs of a GPU. They are absent where NVML does not say them. watts_median is a mean where the GPU counts
// its energy (drawn_watts in gpu_sampler.h); the name is from before.
struct GpuRun {
  std::string name;
  std::optional<double> clock_mhz_median, clock_mhz_min, highest_clock_mhz, memory_clock_mhz;
  std::optional<double> watts_median, watts_limit, celsius_max;
  std::vector<std::string> throttled;  // why clocks were held down: "power limit", ...
};

// A field that is absent is written as null, and `notes` must say why ("latency_ms.p99" -> "n/a (needs ≥ 459
// samples)"). What a measurement of ours always knows is only absent from imported runs.
struct BenchRun {
  std::string model;
  std::optional<std::string> model_sha256;
  std::optional<std::string> source_sha256;  // of the model it was derived from, as its file says; itself otherwise
  std::optional<std::string> command;        // that measured it
  std::string device;                        // "cpu", "cuda:0"
  std::string backend;                       // "cpu", "cuda", "tensorrt", ...
  std::optional<std::string> precision;      // "fp32", "bf16", ...
  std::optional<int64_t> batch = 1;
  std::map<std::string, std::vector<int64_t>> shapes;  // of the inputs
  std::optional<int> threads = 0;
  std::optional<int64_t> streams = 1;        // runs at a time
  std::string load = "closed";               // or "open": see measure/load.h
  std::optional<double> request_rate_per_s;  // of an open load, as asked for; null, without a note, where it is closed
  std::optional<int64_t> samples = 0;
  std::optional<int64_t> warmup_runs = 0;
  std::optional<std::string> transfers = "none";  // "none", "included", "excluded"
  std::optional<bool> cuda_graph = false;
  std::optional<double> first_run_ms;
  Latency latency;
  std::optional<int64_t> outliers;  // samples far out (measure/statistics.h); they count like all others
  std::optional<double> drift;      // Drift::change; a note where it is Drift::named, and then no verdict rests on it
  std::optional<double> throughput_per_s;  // items: batch * runs per second
  std::optional<double> load_by_others;    // as in Environment, over this run
  std::optional<int64_t> workspace_bytes;  // activations and scratch of one session
  std::optional<int64_t> peak_host_bytes, peak_device_bytes, plan_bytes;
  std::optional<double> build_s;
  std::optional<std::vector<double>> samples_ms;  // in the order taken
  std::map<std::string, std::string> notes;       // field -> why it is null or odd
  std::optional<GpuRun> gpu;
  // The power of the CPU's packages on average while it was measured (measure/energy.h). The field stands in the run's
  // object only where that could be read.
  std::optional<double> cpu_watts_mean;
  std::optional<ImportedRun> imported;
};

struct BenchResult {
  Environment environment;
  std::vector<BenchRun> runs;
};

// Why a verdict must not rest on this run: it was imported, and its numbers contradict each other; it drifted while it
// was measured. Empty where it may.
std::string unfit_for_verdict(const BenchRun& run);
// Whether a percentile ("p90", "p95", "p99") is known and rests on enough samples to appear in a verdict. Imported runs
// keep those that do not ("max of 29" in the notes).
bool percentile_fit_for_verdict(const BenchRun& run, std::string_view percentile);

// The power of the run's device, in watts: the GPU by NVML, the CPU by its counters. Absent where it is not known.
std::optional<double> watts_of(const BenchRun& run);
// Joules for an item: watts over items per second.
std::optional<double> joules_per_item(const BenchRun& run);
std::string energy_text(const BenchRun& run);  // "12.5 mJ (35.2 W)", "n/a"

// Fills everything that follows from the samples: counts, latency, throughput (runs one after the other) and the notes
// on them. `run.batch` must be set.
void set_samples(BenchRun& run, const Samples& samples);
// Why latency_of finds no interval for the median of these samples: they are too few, or neighbours are alike.
std::string why_no_median_interval(const std::vector<double>& ms);
// Summarises samples in the order taken, at least one.
Latency latency_of(const std::vector<double>& ms);
// Sets `outliers` and `drift` from samples_ms.
void set_series(BenchRun& run);

// A warning names what disturbed a measurement, or makes it say less than it seems to, with numbers, and a remedy.
struct Warning {
  std::string cause, remedy;
};
std::vector<Warning> warnings_of(const Environment& environment);
std::vector<Warning> warnings_of(const BenchRun& run, const Environment& environment);

// Throws Error{bad_file} naming the field: a null without a note, a number that is negative or not finite, statistics
// that contradict each other.
void check(const BenchResult& result);

std::string to_json(const BenchResult& result);       // checks first
BenchResult result_from_json(std::string_view text);  // strict: missing, unknown and mistyped fields are errors
void save_result(const std::string& path, const BenchResult& result, bool force = false);  // atomically; see Output
BenchResult load_result(const std::string& path);                                          // errors begin with the path

std::string to_json(const Environment& environment);  // the same object as in a result

}  // namespace temper
