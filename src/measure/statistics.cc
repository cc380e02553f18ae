// SPDX-License-Identifier: Apache-2.0
#include "measure/statistics.h"

#include <algorithm>
#include <bit>
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
size_t nearest_rank(size_t count, double p) {                     // from 0
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

namespace {

// The largest k, from 1, of the ranks k and n + 1 - k that hold the median with this confidence; 0: there is none.
size_t rank_of_interval(size_t n, double confidence) {
  // log P(Binomial(n, 1/2) = j), from j to j + 1 by the ratio (n - j) / (j + 1): plain products underflow at n = 1075.
  double log_mass = -double(n) * std::log(2.0), below = 0;
  size_t k = 0;  // ranks from 1
  for (; k < n; ++k) {
    below += std::exp(log_mass);
    if (2 * below > 1 - confidence) break;
    log_mass += std::log(double(n - k)) - std::log(double(k + 1));
  }
  return k;
}

// One bit for each of many values.
class Bits {
 public:
  template <typename Is>
  Bits(size_t count, Is is) : words_(count / 64 + 2) {  // a word of zeros behind the last
    for (size_t i = 0; i < count; ++i) words_[i / 64] |= uint64_t(is(i)) << (i % 64);
  }
  bool operator[](size_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  // How many i have this one's bit i and the other's bit i + lag.
  int64_t common(const Bits& other, size_t lag) const {
    const size_t words = lag / 64, bits = lag % 64;
    int64_t sum = 0;
    for (size_t w = 0; w + words + 1 < words_.size(); ++w) {
      const uint64_t here = other.words_[w + words] >> bits;
      const uint64_t next = bits ? other.words_[w + words + 1] << (64 - bits) : 0;
      sum += std::popcount(words_[w] & (here | next));
    }
    return sum;
  }

 private:
  std::vector<uint64_t> words_;
};

std::optional<Interval> interval_of_rank(std::vector<double> values, size_t k) {
  if (k == 0) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Interval{values[k - 1], values[values.size() - k]};
}

}  // namespace

std::optional<Interval> median_interval(std::vector<double> values, double confidence) {
  const size_t k = rank_of_interval(values.size(), confidence);
  return interval_of_rank(std::move(values), k);
}

std::optional<Interval> median_interval_in_order(const std::vector<double>& values, double confidence) {
  const auto n = double(values.size());
  const size_t independent = size_t(n / correlation_time(values));
  // The ranks of few values stand for the same fractions of all of them.
  const size_t k = rank_of_interval(independent, confidence);
  return interval_of_rank(
      values, independent == values.size() ? k : size_t(double(k) * n / double(std::max<size_t>(independent, 1))));
}

std::optional<Interval> percentile_interval_in_order(const std::vector<double>& values, double p, double confidence) {
  require_fraction(p);
  const size_t n = values.size();
  const double time = correlation_time(values, p);
  const auto independent = size_t(double(n) / time);
  if (p >= 1 || independent < 2) return std::nullopt;
  // P(Binomial = j) from the logarithm, since plain products underflow. low: the largest rank with at most half of what
  // may be missed below it; high: the smallest with at most that above it.
  const double tail = (1 - confidence) / 2, step = std::log(p) - std::log1p(-p);
  double log_mass = double(independent) * std::log1p(-p), below = 0;
  size_t low = 0, high = 0;
  for (size_t j = 0; j <= independent && high == 0; ++j) {
    below += std::exp(log_mass);
    if (below <= tail) low = j + 1;
    if (1 - below <= tail) high = j + 1;
    log_mass += std::log(double(independent - j)) - std::log(double(j + 1)) + step;
  }
  if (low == 0 || high == 0 || high > independent) return std::nullopt;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double scale = double(n) / double(independent);
  return Interval{sorted[std::max<size_t>(size_t(double(low) * scale), 1) - 1],
                  sorted[std::min(size_t(std::ceil(double(high) * scale)), n) - 1]};
}

std::optional<Interval> mean_interval_in_order(const std::vector<double>& values, double confidence) {
  constexpr size_t kLeast = 12;
  const auto length = size_t(std::ceil(2 * correlation_time(values) - 1));
  const size_t blocks = values.size() / length;
  if (blocks < kLeast) return std::nullopt;
  std::vector<double> means;
  for (size_t b = 0; b < blocks; ++b) {
    const auto from = values.begin() + std::ptrdiff_t(b * values.size() / blocks);
    means.push_back(mean({from, values.begin() + std::ptrdiff_t((b + 1) * values.size() / blocks)}));
  }
  return bootstrap_interval(means, mean, confidence, blocks > 10000 ? 200 : 1000);
}

double correlation_time(const std::vector<double>& values, double p) {
  const size_t n = values.size();
  if (n < 8) return 1;
  const double level = p == 0.5 ? median(values) : percentile(values, p);
  // A value counts 0 below the level, 1/2 at it and 1 above: half of its bits in `least` and `most`. Products of such
  // counts are bits of two words, and a run of seconds has so many values that their sums, lag by lag, are what takes
  // the time here.
  const Bits least(n, [&](size_t i) { return !(values[i] < level); });
  const Bits most(n, [&](size_t i) { return values[i] > level; });
  const auto count = [&](size_t i) { return (double(least[i]) + double(most[i])) / 2; };
  const double all = double(least.common(least, 0) + most.common(most, 0)) / 2, share = all / double(n);
  double first = all, last = all;  // the sums of those that have another `lag` behind them, and before them
  const auto correlation = [&](size_t lag) {
    if (lag > 0) first -= count(n - lag), last -= count(lag - 1);
    const auto products =
        double(least.common(least, lag) + least.common(most, lag) + most.common(least, lag) + most.common(most, lag)) /
        4;
    return products - share * (first + last) + double(n - lag) * share * share;
  };
  const double squares = correlation(0);
  if (squares <= 0) return 1;
  double time = -1, even = squares;
  for (size_t lag = 0; lag + 1 < n / 2; lag += 2) {
    const double pair = (even + correlation(lag + 1)) / squares;
    if (pair <= 0) break;
    time += 2 * pair;
    even = correlation(lag + 2);
  }
  return std::max(time, 1.0);
}

int64_t count_outliers(std::vector<double> values) {
  if (values.size() < 4) return 0;
  const double low = percentile(values, 0.25), high = percentile(values, 0.75), reach = 3 * (high - low);
  return std::count_if(values.begin(), values.end(),
                       [&](double value) { return value < low - reach || value > high + reach; });
}

std::optional<Drift> drift_of(const std::vector<double>& values) {
  constexpr size_t kLeast = 12, kBlocks = 24;
  const size_t n = values.size();
  if (n < kLeast) return std::nullopt;
  const auto median_of = [&](size_t from, size_t to) {
    return median({values.begin() + std::ptrdiff_t(from), values.begin() + std::ptrdiff_t(to)});
  };
  const double first = median_of(0, n / 3), last = median_of(n - n / 3, n);
  if (first <= 0) return std::nullopt;
  const size_t blocks = std::min(n, kBlocks);
  std::vector<double> medians;
  for (size_t b = 0; b < blocks; ++b) medians.push_back(median_of(b * n / blocks, (b + 1) * n / blocks));
  int64_t rises = 0;
  for (size_t i = 0; i < blocks; ++i)
    for (size_t j = i + 1; j < blocks; ++j) rises += (medians[j] > medians[i]) - (medians[j] < medians[i]);
  const auto m = double(blocks);
  const double z = double(std::max<int64_t>(std::abs(rises) - 1, 0)) / std::sqrt(m * (m - 1) * (2 * m + 5) / 18);
  const double change = last / first - 1;
  return Drift{change, z > 2.5758 && std::abs(change) > 0.01};
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
