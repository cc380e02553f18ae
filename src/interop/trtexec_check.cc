// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_check.h"

#include <algorithm>
#include <cmath>

#include "base/concat.h"

namespace temper {

namespace {

// The text has six significant digits, so a number is off by up to this share of itself.
constexpr double kRounding = 5e-6;
// trtexec sums in single precision: a mean of N is off by up to this share times N.
constexpr double kFloatRounding = 6e-8;

bool close(double a, double b, double share) { return std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b)); }

void check_order(const char* name, const std::optional<TrtexecStats>& stats, TrtexecChecks& checks) {
  if (!stats) return;
  std::vector<std::pair<std::string, double>> ascending;
  auto put = [&](const char* what, const std::optional<double>& value) {
    if (value) ascending.push_back({what, *value});
  };
  put("min", stats->min);
  std::vector<std::pair<double, double>> percentiles = stats->percentiles;
  if (stats->median) percentiles.push_back({50, *stats->median});
  std::stable_sort(percentiles.begin(), percentiles.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // The median of an even count is the mean of two, so percentiles near it may lie on either side.
  for (const auto& [percent, value] : percentiles)
    if (percent == 50 && stats->median == value) ascending.push_back({"median", value});
    else if (std::abs(percent - 50) > 5) ascending.push_back({concat(percent, "%"), value});
  put("max", stats->max);
  for (size_t i = 1; i < ascending.size(); ++i) {
    ++checks.done;
    if (ascending[i - 1].second > ascending[i].second)
      checks.failures.push_back(concat(name, ": ", ascending[i - 1].first, " (", ascending[i - 1].second,
                                       " ms) is above ", ascending[i].first, " (", ascending[i].second, " ms)"));
  }
  if (!stats->mean || !stats->min || !stats->max) return;
  ++checks.done;
  // A mean of equal times may be off by the rounding of the sum.
  const double slack = 1e-2 * *stats->mean;
  if (*stats->mean < *stats->min - slack || *stats->mean > *stats->max + slack)
    checks.failures.push_back(concat(name, ": the mean (", *stats->mean, " ms) lies outside min and max (", *stats->min,
                                     " to ", *stats->max, " ms)"));
}

void check_maximum(const char* name, const std::optional<TrtexecStats>& stats, TrtexecChecks& checks) {
  if (!stats || !stats->max || !checks.queries) return;
  for (const auto& [percent, value] : stats->percentiles) {
    if (percent <= 0 || percent > 100 || trtexec_percentile_excludes(percent, *checks.queries) != 0) continue;
    ++checks.done;
    if (value != *stats->max)
      checks.failures.push_back(concat(name, ": of ", *checks.queries, " queries the ", percent,
                                       "% percentile is the maximum, but ", value, " ms is not ", *stats->max, " ms"));
  }
}

void count_queries(const TrtexecRun& run, int64_t batch, TrtexecChecks& checks) {
  std::optional<double> by_time, by_total;
  if (run.throughput_qps && *run.throughput_qps > 0 && run.walltime_s)
    by_time = *run.throughput_qps * *run.walltime_s / double(batch);
  if (run.gpu_total_s && run.gpu && run.gpu->mean && *run.gpu->mean > 0)
    by_total = *run.gpu_total_s * 1e3 / *run.gpu->mean;
  auto exact = [&](const std::optional<double>& count) {
    return count && *count >= 0.5 && *count < 2e4 && std::abs(*count - std::round(*count)) < 0.25;
  };
  if (run.queries && *run.queries > 0) {
    // With an implicit batch the log counts items. 7.x counts none where the batch is explicit.
    if (batch == 1) checks.queries = run.queries;
    else if (*run.queries % batch == 0 && !(by_total && close(*by_total, double(*run.queries), 1e-3)))
      checks.queries = *run.queries / batch;
    else if (by_total && close(*by_total, double(*run.queries), 1e-3)) checks.queries = run.queries;
  } else if (exact(by_time) && (!by_total || std::round(*by_total) == std::round(*by_time))) {
    checks.queries = int64_t(std::round(*by_time));
    checks.queries_derived = true;
  } else if (exact(by_total) && !by_time) {
    checks.queries = int64_t(std::round(*by_total));
    checks.queries_derived = true;
  } else if (by_time) {
    checks.about_queries = by_time;
  } else if (by_total) {
    checks.about_queries = by_total;
  }
}

}  // namespace

int64_t trtexec_percentile_excludes(double percent, int64_t queries) {
  // In single precision, as trtexec does it: in double, 10 % of 10 would be 0.
  return int64_t((1.0F - float(percent) / 100.0F) * float(queries));
}

TrtexecChecks check_numbers(const TrtexecRun& run, int64_t implicit_batch) {
  TrtexecChecks checks;
  count_queries(run, implicit_batch, checks);
  const std::pair<const char*, const std::optional<TrtexecStats>*> all[] = {
      {"latency", &run.latency}, {"end-to-end latency", &run.end_to_end}, {"enqueue time", &run.enqueue},
      {"H2D", &run.h2d},         {"GPU compute time", &run.gpu},          {"D2H", &run.d2h}};
  for (const auto& [name, stats] : all) {
    check_order(name, *stats, checks);
    check_maximum(name, *stats, checks);
  }
  const double n = checks.queries ? double(*checks.queries) : checks.about_queries.value_or(1e5);
  auto mean_of = [](const std::optional<TrtexecStats>& stats) { return stats ? stats->mean : std::nullopt; };
  const auto latency = mean_of(run.latency), h2d = mean_of(run.h2d), gpu = mean_of(run.gpu), d2h = mean_of(run.d2h);
  if (latency && h2d && gpu && d2h) {
    ++checks.done;
    const double sum = *h2d + *gpu + *d2h;
    if (!close(*latency, sum, 2 * kRounding + kFloatRounding * n))
      checks.failures.push_back(
          concat("the mean latency (", *latency, " ms) is not the sum of H2D, GPU and D2H (", sum, " ms)"));
  } else if (latency && gpu) {
    ++checks.done;
    if (*gpu > *latency * (1 + 2 * kRounding + kFloatRounding * n))
      checks.failures.push_back(
          concat("the mean GPU compute time (", *gpu, " ms) is above the mean latency (", *latency, " ms)"));
  }
  const bool counted = run.queries && *run.queries > 0;
  if (run.throughput_qps && run.walltime_s && counted && *run.walltime_s > 0 &&
      !(run.multi_line && *run.throughput_qps == 0)) {
    ++checks.done;
    const double qps = double(*run.queries) / *run.walltime_s;
    if (!close(*run.throughput_qps, qps, 3 * kRounding) &&
        !(implicit_batch > 1 && close(*run.throughput_qps, qps * double(implicit_batch), 3 * kRounding)))
      checks.failures.push_back(concat("the throughput (", *run.throughput_qps, " qps) is not ", *run.queries,
                                       " queries in ", *run.walltime_s, " s (", qps, ")"));
  }
  const std::optional<double> queries = checks.queries && !(checks.queries_derived && !run.throughput_qps)
                                            ? std::optional(double(*checks.queries))
                                            : checks.about_queries;
  if (run.gpu_total_s && gpu && queries &&
      (counted || (run.throughput_qps && *run.throughput_qps > 0 && run.walltime_s))) {
    ++checks.done;
    if (!close(*run.gpu_total_s * 1e3, *gpu * *queries, 6 * kRounding))
      checks.failures.push_back(concat("the total GPU compute time (", *run.gpu_total_s,
                                       " s) is not the mean times the queries (", *gpu, " ms × ", *queries, ")"));
  }
  for (const std::string& contradiction : run.contradictions) {
    ++checks.done;
    checks.failures.push_back(contradiction);
  }
  return checks;
}

}  // namespace temper
