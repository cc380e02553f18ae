// SPDX-License-Identifier: Apache-2.0
#include "measure/proportion.h"

#include <algorithm>
#include <cmath>

namespace temper {

Interval wilson_interval(int64_t successes, int64_t n, double z) {
  if (n <= 0) return {0, 1};
  const double count = double(n), p = double(successes) / count, z2 = z * z;
  const double centre = (p + z2 / (2 * count)) / (1 + z2 / count);
  const double half = z / (1 + z2 / count) * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  return {successes == 0 ? 0 : std::max(0.0, centre - half), successes == n ? 1 : std::min(1.0, centre + half)};
}

double McNemar::p() const {
  const double all = double(lost + won);
  // log P(Binomial(all, 1/2) = j), from j to j + 1 by the ratio (all - j) / (j + 1).
  double log_mass = -all * std::log(2.0), tail = 0;
  for (int64_t j = 0; j <= std::min(lost, won); ++j) {
    tail += std::exp(log_mass);
    log_mass += std::log(all - double(j)) - std::log(double(j + 1));
  }
  return std::min(1.0, 2 * tail);
}

double McNemar::drop() const { return n ? double(lost - won) / double(n) : 0; }

Interval McNemar::drop_interval() const {
  const double total = double(n) + 2, b = double(lost) + 0.5, c = double(won) + 0.5, middle = (b - c) / total;
  const double half = 1.959963984540054 * std::sqrt(b + c - (b - c) * (b - c) / total) / total;
  return {std::max(-1.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace temper
