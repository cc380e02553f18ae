// SPDX-License-Identifier: Apache-2.0
// Statistics of measured times. Times are skewed and often have two modes, so intervals assume no distribution.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace temper {

struct Interval {
  double low = 0, high = 0;
};

// All of them throw Error{usage} on an empty list, except where they return an optional.
double median(std::vector<double> values);  // of an even number: the mean of the two in the middle
double mean(const std::vector<double>& values);
double standard_deviation(const std::vector<double>& values);  // of a sample (n - 1); 0 for one value

// Nearest rank: the smallest value that at least the fraction `p` (0 < p <= 1) of the values does not exceed. It is
// always a value that was measured.
double percentile(std::vector<double> values, double p);

// Samples needed so that with 99 % confidence at least one lies beyond the percentile: the least n with p^n <= 0.01.
int samples_needed(double p);  // .5: 7, .9: 44, .95: 90, .99: 459

struct Percentile {
  std::optional<double> value;
  std::string reason;  // "n/a (needs ≥ 459 samples)" where there is no value
};
Percentile reliable_percentile(const std::vector<double>& values, double p);

// Confidence interval of the median from order statistics: the ranks k and n + 1 - k with the largest k for which
// 2 P(Binomial(n, 1/2) < k) <= 1 - confidence. Exact for every continuous distribution; never an estimate of width.
// Empty where n is too small (below six values at 95 %).
std::optional<Interval> median_interval(std::vector<double> values, double confidence = 0.95);

// Percentile bootstrap of any statistic; the same seed gives the same interval. Empty below two values.
std::optional<Interval> bootstrap_interval(const std::vector<double>& values,
                                           const std::function<double(const std::vector<double>&)>& statistic,
                                           double confidence = 0.95, int resamples = 1000, uint64_t seed = 1);

}  // namespace temper
