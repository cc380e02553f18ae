// SPDX-License-Identifier: Apache-2.0
#include "video/regions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace temper::video {

namespace {

constexpr int64_t kStep = 64;

// Of kStep scores.
bool any_above(const float* scores, float limit) {
  int above = 0;
  for (int64_t i = 0; i < kStep; ++i) above |= int(scores[i] > limit);
  return above;
}

}  // namespace

std::vector<Region> find_regions(const float* scores, int64_t height, int64_t width, double threshold, int64_t least) {
  // The largest float that is not above the threshold: floats above it are those above the threshold.
  float limit = float(threshold);
  if (double(limit) > threshold) limit = std::nextafter(limit, -std::numeric_limits<float>::infinity());
  std::vector<Region> regions;
  std::vector<char> seen(size_t(height * width), 0);
  std::vector<int64_t> open;
  for (int64_t start = 0; start < height * width; ++start) {
    // Most of a map is below it.
    while (start % kStep == 0 && start + kStep <= height * width && !any_above(scores + start, limit)) start += kStep;
    if (start == height * width) break;
    if (seen[size_t(start)] || !(scores[start] > limit)) continue;
    int64_t left = width, right = 0, top = height, bottom = 0, count = 0;
    double sum = 0;
    seen[size_t(start)] = 1;
    open.assign(1, start);
    while (!open.empty()) {
      const int64_t at = open.back(), y = at / width, x = at % width;
      open.pop_back();
      left = std::min(left, x), right = std::max(right, x + 1);
      top = std::min(top, y), bottom = std::max(bottom, y + 1);
      sum += double(scores[at]);
      ++count;
      for (int64_t ny = std::max<int64_t>(y - 1, 0); ny < std::min(y + 2, height); ++ny)
        for (int64_t nx = std::max<int64_t>(x - 1, 0); nx < std::min(x + 2, width); ++nx) {
          const int64_t next = ny * width + nx;
          if (seen[size_t(next)] || !(scores[next] > limit)) continue;
          seen[size_t(next)] = 1;
          open.push_back(next);
        }
    }
    if (count >= least)
      regions.push_back({double(left), double(top), double(right), double(bottom), sum / double(count)});
  }
  return regions;
}

}  // namespace temper::video
