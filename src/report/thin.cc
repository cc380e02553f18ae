// SPDX-License-Identifier: Apache-2.0
#include "report/thin.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "measure/statistics.h"

namespace temper {

std::vector<Dot> dots_of(std::vector<double> values, bool logarithmic, size_t most) {
  std::vector<Dot> dots;
  if (values.empty()) return dots;
  std::sort(values.begin(), values.end());
  const auto scaled = [&](double v) { return logarithmic ? std::log(std::max(v, 1e-12)) : v; };
  // Density by a histogram of all values between the 1st and the 99th rank of a hundred, smoothed over its neighbours:
  // one outlier must not squeeze everything else into a single bin.
  constexpr int kBins = 48;
  const size_t n = values.size();
  const double low = scaled(values[n / 100]), high = scaled(values[n - 1 - n / 100]);
  std::array<double, kBins + 2> count{}, smooth{};
  const auto bin_of = [&](double v) {
    return high > low ? 1 + int(std::clamp((scaled(v) - low) / (high - low), 0.0, 0.999999) * kBins) : 1;
  };
  const auto outside = [&](double v) { return scaled(v) < low || scaled(v) > high; };
  for (double v : values)
    if (!outside(v)) count[size_t(bin_of(v))] += 1;
  double densest = 1;
  for (int b = 1; b <= kBins; ++b) {
    smooth[size_t(b)] = count[size_t(b)] / 2 + (count[size_t(b) - 1] + count[size_t(b) + 1]) / 4;
    densest = std::max(densest, smooth[size_t(b)]);
  }
  std::vector<size_t> chosen;
  if (n <= most) {
    for (size_t i = 0; i < n; ++i) chosen.push_back(i);
  } else {
    // From both ends the steps grow until they are those of the middle: a tail that was drawn more densely than the
    // rest and then broke off would look like a mode of its own.
    const double widest = double(n) / double(most);
    std::vector<size_t> tail;
    double rank = 0;
    for (double step = 1; step < widest; step *= 1.5) tail.push_back(size_t(rank)), rank += step;
    const size_t middle = most - 2 * tail.size();
    chosen = tail;
    for (size_t i = 0; i < middle; ++i)
      chosen.push_back(size_t(rank + (double(n - 1) - 2 * rank) * double(i) / double(middle - 1)));
    for (size_t i = tail.size(); i-- > 0;) chosen.push_back(n - 1 - tail[i]);
  }
  for (size_t k = 0; k < chosen.size(); ++k) {
    const double value = values[chosen[k]];
    // The golden ratio's multiples spread evenly over [-1, 1], however many there are.
    const double even = 2 * std::fmod(0.5 + double(k) * 0.6180339887498949, 1.0) - 1;
    dots.push_back({value, even * (outside(value) ? 0.1 : std::max(0.1, smooth[size_t(bin_of(value))] / densest))});
  }
  return dots;
}

std::vector<Stretch> stretches_of(const std::vector<double>& values, size_t most) {
  const size_t n = values.size(), parts = std::min(n, most);
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = n * i / parts, end = n * (i + 1) / parts;
    const std::vector<double> part(values.begin() + std::ptrdiff_t(begin), values.begin() + std::ptrdiff_t(end));
    stretches.push_back({(double(begin) + double(end)) / 2 / double(n), median(part),
                         *std::max_element(part.begin(), part.end()), part.size()});
  }
  return stretches;
}

}  // namespace temper
