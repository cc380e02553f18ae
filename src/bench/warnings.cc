// SPDX-License-Identifier: Apache-2.0
// Warnings about what disturbed a measurement, each with a remedy.
#include <cmath>

#include "base/concat.h"
#include "bench/results.h"
#include "bench/table.h"

namespace temper {

namespace {

constexpr double kClockChange = 0.03;
constexpr double kHot = 90;         // °C: most processors lower their clock at 95 to 105
constexpr double kWidth = 0.01;     // of half the median's interval
constexpr double kOutliers = 0.01;  // share of the samples

Warning load_warning(double cores, const Environment& environment) {
  return {
      concat("other processes used ", format_number(cores, 2), " of ", environment.allowed_cores, " cores meanwhile"),
      "stop them, or keep them off these cores (taskset); a ratio from `temper compare` suffers least"};
}

}  // namespace

std::vector<Warning> warnings_of(const Environment& e) {
  std::vector<Warning> list;
  if (e.load_by_others.value_or(0) >= kLoadThatCounts) list.push_back(load_warning(*e.load_by_others, e));
  if (!e.governor.empty() && e.governor != "performance")
    list.push_back({concat("the frequency governor is '", e.governor, "', so the clock follows the load"),
                    "sudo cpupower frequency-set -g performance"});
  if (e.clock_mhz_before && e.clock_mhz_after && *e.clock_mhz_before > 0 &&
      std::abs(*e.clock_mhz_after / *e.clock_mhz_before - 1) > kClockChange)
    list.push_back({concat("the core's clock went from ", *e.clock_mhz_before, " to ", *e.clock_mhz_after, " MHz"),
                    "let the machine cool, fix the clock (cpupower frequency-set -d F -u F), or measure longer"});
  if (e.throttle_events.value_or(0) > 0)
    list.push_back({concat("the processor lowered its clock ", *e.throttle_events, " times because of heat"),
                    "cool it, or use fewer threads"});
  if (e.temperature_after_c.value_or(0) >= kHot)
    list.push_back({concat("the processor is at ", *e.temperature_after_c, " °C"), "cool it: it will lower its clock"});
  if (e.threads > 0 && e.allowed_cores > 0 && e.threads > usable_cores(e))
    list.push_back(
        {concat(e.threads, " threads share ", usable_cores(e), " cores"), concat("--threads ", usable_cores(e))});
  else if (e.physical_cores && e.threads > *e.physical_cores)
    list.push_back({concat(e.threads, " threads share ", *e.physical_cores, " physical cores"),
                    concat("--threads ", *e.physical_cores, " is often faster, and always steadier")});
  return list;
}

std::vector<Warning> warnings_of(const BenchRun& run, const Environment& e) {
  std::vector<Warning> list;
  if (run.imported) {
    for (const std::string& text : run.imported->warnings) list.push_back({text, ""});
    if (run.drift && run.notes.contains("drift"))
      list.push_back({unfit_for_verdict(run), "measure again on a machine at rest"});
    return list;
  }
  if (run.gpu && !run.gpu->throttled.empty()) {
    std::string reasons;
    for (const std::string& reason : run.gpu->throttled) reasons += concat(reasons.empty() ? "" : ", ", reason);
    list.push_back({concat("the GPU held its clocks down meanwhile: ", reasons),
                    "cool it or raise its power limit; otherwise this is what it does under such a load"});
  }
  if (const std::string unfit = unfit_for_verdict(run); !unfit.empty())
    list.push_back(
        {unfit,
         "no verdict can rest on it: find what changed meanwhile (heat, other load, memory), then measure again"});
  if (const auto note = run.notes.find("warmup_runs"); note != run.notes.end())
    list.push_back({note->second, "a longer --duration, or --warmup N"});
  // A warning about the whole file's environment needs no saying again.
  if (run.load_by_others.value_or(0) >= kLoadThatCounts && e.load_by_others.value_or(0) < kLoadThatCounts)
    list.push_back(load_warning(*run.load_by_others, e));
  const Latency& l = run.latency;
  if (l.median && *l.median > 0) {
    const double width = l.median_ci95 ? (l.median_ci95->high - l.median_ci95->low) / 2 / *l.median : 1;
    if (!l.median_ci95)
      list.push_back(
          {concat(run.samples.value_or(0), " samples say too little about the median"), "a longer --duration"});
    else if (width > kWidth && run.load == "closed")
      list.push_back({concat("the median is only known to within ", percent(width, 2)),
                      "a longer --duration, or a quieter machine"});
  }
  if (run.outliers && run.samples && double(*run.outliers) > kOutliers * double(*run.samples))
    list.push_back({concat(*run.outliers, " of ", *run.samples, " samples are far out, up to ",
                           format_number(l.max.value_or(0)), " ms"),
                    "something interrupts the runs: other processes, interrupts, a full memory; read p99 and the "
                    "maximum, not the mean"});
  if (const auto note = run.notes.find("throughput_per_s"); run.load == "open" && note != run.notes.end())
    list.push_back({note->second, "a lower --rate, a larger batch, or more --streams"});
  if (run.streams.value_or(1) > 1 && run.load == "closed")
    list.push_back({concat(*run.streams, " streams ran at a time: latencies hold what they cost each other"),
                    "compare throughput, or measure one stream"});
  if (run.threads && run.streams && e.allowed_cores > 0 && *run.streams > 1 &&
      *run.threads * *run.streams > usable_cores(e))
    list.push_back({concat(*run.streams, " streams of ", *run.threads, " threads share ", usable_cores(e), " cores"),
                    concat("plans built with --threads ", std::max<int64_t>(1, usable_cores(e) / *run.streams))});
  return list;
}

}  // namespace temper
