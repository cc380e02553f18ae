// SPDX-License-Identifier: Apache-2.0
// Compares two result files: which runs belong together, whether they may be compared, and what their times say.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/results.h"
#include "measure/paired.h"

namespace temper {

// A run with the environment that its file states.
struct PlacedRun {
  const BenchRun* run = nullptr;
  const Environment* environment = nullptr;
};

// The reasons why two runs do not compare what they are meant to compare.
struct Differences {
  std::vector<std::string> refusals;  // "batch: 1 and 8"
  std::vector<std::string> warnings;  // "the models' hashes are unknown on both sides"
};
// Lists the differences. Device, shapes, batch, threads, streams, load, request rate, transfers, CUDA graph and model
// have to be the same; what one side does not know differs, what neither knows is a warning. Two models are the same
// when their hashes are, or those of what they were derived from. Precision, plan and version of Temper may differ:
// they are what is compared.
Differences differences_of(const PlacedRun& a, const PlacedRun& b);

// Pairs of runs (indices), one of each result. Where each has one run, those; otherwise runs of the same shapes, batch,
// threads, streams and load, and of the same precision where both files hold several or it decides. Throws
// Error{unsupported} with what each file holds where nothing belongs together.
std::vector<std::pair<size_t, size_t>> matching_runs(const BenchResult& a, const BenchResult& b);

// Compares the second run with the first by their median latencies. Nothing was interleaved: what the machine did in
// between is in the ratio.
struct Comparison {
  double ratio = 1;                  // of the medians, first over second: above 1 the second is that many times as fast
  std::optional<Interval> interval;  // 99 % at least
  Verdict verdict = Verdict::unsure;
  std::string unfit;                     // not empty: why no verdict may be given, whatever the interval is
  std::string why;                       // where it is unsure
  std::string from;                      // what the interval rests on: "samples", or "the summary: ..."
  std::optional<double> samples_factor;  // where more samples would decide: how many times as many
};
// The interval holds the quotient of both medians when each of their 99.5 % intervals holds its own (C. E. Bonferroni).
// Those come from order statistics of the samples; where a run has only a summary, from its minimum and its
// percentiles, which are order statistics, too, but wider. Empty for fewer samples than such an interval needs. UNSURE,
// too, where a run is unfit for a verdict (results.h). Throws Error{unsupported} where a run has no median.
Comparison compare_runs(const BenchRun& a, const BenchRun& b, double same = 0.01);

enum class GateVerdict { pass, fail, unsure };
std::string_view name_of(GateVerdict verdict);  // "PASS"
// Whether the second is slower than the first by more than `max_slowdown` (0.03 = 3 %): fail where the whole interval
// of the slowdown lies beyond it, pass where none of it does.
struct Gate {
  double slowdown = 0;               // time of the second over that of the first, less 1
  std::optional<Interval> interval;  // of the slowdown
  GateVerdict verdict = GateVerdict::unsure;
  std::string why;
  std::optional<double> samples_factor;
};
Gate gate_of(const Comparison& comparison, double max_slowdown);

// The label that tells a run apart: "fp32, batch 8, 2 threads".
std::string label_of(const BenchRun& run);

// Says of runs that differ in their threads alone which number is the fastest, and how much longer each other one
// takes, as far as the intervals tell. "1 thread is the fastest: 2 threads take 1.84 times as long (1.71 to 1.95)".
std::string fastest_threads(const std::vector<const BenchRun*>& runs);

}  // namespace temper
