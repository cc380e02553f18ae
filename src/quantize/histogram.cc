// SPDX-License-Identifier: Apache-2.0
#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace temper {

namespace {
// The least exponent that puts `amax` into the kBins bins: 2^10 <= amax / 2^exponent < 2^11.
int exponent_for(float amax) { return std::ilogb(amax) - 10; }
static_assert(Histogram::kBins == 1 << 11);
}  // namespace

double Histogram::bin_width() const { return std::ldexp(1.0, exponent); }

uint64_t Histogram::total() const { return std::accumulate(counts.begin(), counts.end(), zeros); }

double Histogram::mean_square() const {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) sum += double(counts[i]) * (double(i) + 0.5) * (double(i) + 0.5);
  const uint64_t all = total();
  return all ? sum / double(all) * bin_width() * bin_width() : 0;
}

int Histogram::used() const {
  int last = int(counts.size());
  while (last > 0 && counts[size_t(last - 1)] == 0) --last;
  return last;
}

void Histogram::widen(int to) {
  if (counts.empty()) {
    counts.assign(kBins, 0);
    exponent = to;
  }
  if (to <= exponent) return;
  const int shift = to - exponent;
  for (int i = 0; i < kBins; ++i) {
    const uint64_t count = counts[size_t(i)];
    counts[size_t(i)] = 0;  // before the addition: bin 0 goes to itself
    counts[shift > 11 ? 0 : size_t(i >> shift)] += count;
  }
  exponent = to;
}

void Histogram::add(std::span<const float> values) {
  float amax = 0;
  for (float x : values) amax = std::max(amax, std::fabs(x));
  if (amax == 0) {
    zeros += values.size();
    return;
  }
  widen(exponent_for(amax));
  // In double, because the factor may be beyond a float. A product with a power of two is exact, and so is the bin.
  const double factor = std::ldexp(1.0, -exponent);
  uint64_t found_zeros = 0;
  for (float x : values) {
    if (x == 0) ++found_zeros;
    else ++counts[size_t(double(std::fabs(x)) * factor)];
  }
  zeros += found_zeros;
}

void Histogram::merge(const Histogram& other) {
  zeros += other.zeros;
  if (other.counts.empty()) return;
  Histogram addend = other;
  widen(other.exponent);
  addend.widen(exponent);
  for (int i = 0; i < kBins; ++i) counts[size_t(i)] += addend.counts[size_t(i)];
}

}  // namespace temper
