// SPDX-License-Identifier: Apache-2.0
// A streaming histogram of |x|. Its size does not depend on how much was added, and two of them join exactly.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace temper {

// Bin i counts the values with i <= |x| / 2^exponent < i + 1; zeros are counted apart, because they quantize without
// error whatever the scale. The bins widen by powers of two, so that two old bins are exactly one new one: the result
// depends on the values alone, not on their order or on how they were split. The widest value lies in the upper half.
struct Histogram {
  static constexpr int kBins = 2048;
  // The limits of `exponent`: those of the smallest and the largest float.
  static constexpr int kLeastExponent = -159, kMostExponent = 117;

  int exponent = 0;  // without meaning as long as counts is empty
  uint64_t zeros = 0;
  std::vector<uint64_t> counts;  // kBins, or none as long as there was nothing but zeros

  double bin_width() const;
  uint64_t total() const;
  double mean_square() const;               // of the values, each taken for the middle of its bin; 0 for none
  int used() const;                         // bins up to the last one that holds anything
  void add(std::span<const float> values);  // finite ones; anything else is a programmer's error
  void merge(const Histogram& other);
  bool operator==(const Histogram&) const = default;

 private:
  void widen(int exponent);
};

}  // namespace temper
