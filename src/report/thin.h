// SPDX-License-Identifier: Apache-2.0
// Thins samples out to what a figure can show, without hiding what matters: extremes always stay.
#pragma once
#include <cstddef>
#include <vector>

namespace temper {

struct Dot {
  double value = 0;
  double offset = 0;  // -1 .. 1 beside the line of its run, as wide as there are many values near it
};
// All values, or where there are more than `most`, that many of them: evenly by rank, more densely towards both ends,
// the smallest and the largest always. Each gets an offset in proportion to the density around it (of the logarithms
// where `logarithmic`), so that every mode is a bulge of its own. Not in the order taken. `most` is at least 100.
std::vector<Dot> dots_of(std::vector<double> values, bool logarithmic, size_t most = 300);

struct Stretch {
  double place = 0;            // of its middle in the whole, 0 .. 1
  double median = 0, max = 0;  // of the values in it
  size_t count = 0;
};
// Consecutive values in at most `most` stretches of (almost) the same length.
std::vector<Stretch> stretches_of(const std::vector<double>& values, size_t most = 200);

}  // namespace temper
