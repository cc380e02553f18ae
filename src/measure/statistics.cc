// SPDX-License-Identifier: Apache-2.0
#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"

namespace temper {

namespace {
void require_values(const std::vector<double>& values) {
  if (values.empty()) fail(ErrorKind::usage, "a statistic of no values was asked for");
}
void require_fraction(double p) {
  if (!(p > 0 && p <= 1)) fail(ErrorKind::usage, "a percentile is given as a fraction between 0 and 1, not ", p);
}
size_t nearest_rank(size_t count, double p) {  // from 0
  const auto rank = size_t(std::ceil(p * double(count) - 1e-9));  // 0.95 * 20 is a little more than 19 in binary
  return std::clamp<size_t>(rank, 1, count) - 1;
}
}  // namespace

double median(std::vector<double> values) {
  require_values(values);
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double mean(const std::vector<double>& values) {
  require_values(values);
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  require_values(values);
  if (values.size() == 1) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / double(values.size() - 1));
}

double percentile(std::vector<double> values, double p) {
  require_values(values);
  require_fraction(p);
  const auto at = values.begin() + std::ptrdiff_t(nearest_rank(values.size(), p));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

int samples_needed(double p) {
  require_fraction(p);
  if (p == 1) fail(ErrorKind::usage, "no number of samples has one beyond the largest");
  return int(std::ceil(std::log(0.01) / std::log(p)));
}

Percentile reliable_percentile(const std::vector<double>& values, double p) {
  const int needed = samples_needed(p);
  if (values.size() < size_t(needed)) return {std::nullopt, concat("n/a (needs ≥ ", needed, " samples)")};
  return {percentile(values, p), ""};
}

std::optional<Interval> median_interval(std::vector<double> values, double confidence) {
  const size_t n = values.size();
  // log P(Binomial(n, 1/2) = j), from j to j + 1 by the ratio (n - j) / (j + 1): plain products underflow at n = 1075.
  double log_mass = -double(n) * std::log(2.0), below = 0;
  size_t k = 0;  // ranks from 1
  for (; k < n; ++k) {
    below += std::exp(log_mass);
    if (2 * below > 1 - confidence) break;
    log_mass += std::log(double(n - k)) - std::log(double(k + 1));
  }
  if (k == 0) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Interval{values[k - 1], values[n - k]};
}

std::optional<Interval> bootstrap_interval(const std::vector<double>& values,
                                           const std::function<double(const std::vector<double>&)>& statistic,
                                           double confidence, int resamples, uint64_t seed) {
  if (values.size() < 2) return std::nullopt;
  std::mt19937_64 random(seed);
  std::vector<double> results, sample(values.size());
  for (int i = 0; i < resamples; ++i) {
    // Modulo: std::uniform_int_distribution differs between standard libraries; the bias is below 2^-40 here.
    for (double& value : sample) value = values[random() % values.size()];
    results.push_back(statistic(sample));
  }
  std::sort(results.begin(), results.end());
  const double tail = (1 - confidence) / 2;
  return Interval{results[nearest_rank(results.size(), tail)], results[nearest_rank(results.size(), 1 - tail)]};
}

}  // namespace temper
