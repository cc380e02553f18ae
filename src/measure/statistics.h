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

// The same for values in the order in which they were taken, where one tells of the next (a neighbour that comes and
// goes, a clock that is lowered for a while): the ranks are those of values.size() / correlation_time(values)
// independent values.
std::optional<Interval> median_interval_in_order(const std::vector<double>& values, double confidence = 0.95);

// The interval of a percentile (0 < p < 1), in the same way, from the ranks l and u with
// P(l <= Binomial(n, p) < u) >= confidence. Empty where the values are too few to have both.
std::optional<Interval> percentile_interval_in_order(const std::vector<double>& values, double p,
                                                     double confidence = 0.95);

// The interval of the mean, by the bootstrap over blocks of neighbours, which keep what one value tells of the next
// (H. R. Kuensch, 1989). It is empty below 12 blocks, and less exact than those above: a mean can rest on a few values
// that are not among the samples.
std::optional<Interval> mean_interval_in_order(const std::vector<double>& values, double confidence = 0.95);

// How many values in a row say as much about a percentile as one independent value: the sum of the autocorrelation of
// "above it" over all lags, cut where the sum of two neighbouring lags is no longer positive (C. J. Geyer, 1992). At
// least 1; 1 for fewer than eight values, which cannot tell.
double correlation_time(const std::vector<double>& values, double p = 0.5);

// Values further than three times the distance between the quartiles below the first or above the third quartile
// ("far out": J. W. Tukey, 1977). 0 for fewer than four values.
int64_t count_outliers(std::vector<double> values);

// Whether values got larger or smaller while they were taken.
struct Drift {
  double change = 0;   // the median of the last third of the values over that of the first third, less 1
  bool named = false;  // more than 1 %, and beyond what chance does
};
// Chance: the rank correlation with time (H. B. Mann, 1945; M. G. Kendall) of the medians of 24 blocks, p < 0.01,
// two-sided. Blocks take out what lasts for a few values only. Empty below 12 values, or where the first third's median
// is not above 0.
std::optional<Drift> drift_of(const std::vector<double>& values);

// Percentile bootstrap of any statistic; the same seed gives the same interval. Empty below two values.
std::optional<Interval> bootstrap_interval(const std::vector<double>& values,
                                           const std::function<double(const std::vector<double>&)>& statistic,
                                           double confidence = 0.95, int resamples = 1000, uint64_t seed = 1);

}  // namespace temper
