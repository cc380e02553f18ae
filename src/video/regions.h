// SPDX-License-Identifier: Apache-2.0
// Boxes around what a score map shows.
#pragma once
#include <cstdint>
#include <vector>

namespace temper::video {

// In pixels; right and bottom are the first that are outside. `score` is the mean over the pixels that belong to it.
struct Region {
  double left = 0, top = 0, right = 0, bottom = 0, score = 0;
};

// The connected parts (by sides and corners) of a map of height x width in which each score is above `threshold`, in
// the order of their first pixels, row by row; those of fewer than `least` pixels are left out. NaN is not above
// anything.
std::vector<Region> find_regions(const float* scores, int64_t height, int64_t width, double threshold, int64_t least);

}  // namespace temper::video
