// SPDX-License-Identifier: Apache-2.0
// The arithmetic (where windows begin and end, the order of the passes, fixed point) is chosen to agree with Pillow's
// ImagingResample for 8-bit pictures, because that is what most classifiers were trained and published with.
#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "data/place.h"

namespace temper {

namespace {

constexpr int kBits =
    32 - 8 - 2;  // weights are fixed point with this many fraction bits; 2 bits of headroom for overshoot

struct Filter {
  double support;  // the weight is 0 beyond +-support
  double (*weight)(double);
};
double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
double cubic(double x) {  // Keys, a = -1/2
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// For each output position: the first source position and the weights from there on.
struct Windows {
  struct Window {
    int64_t first, count;
    size_t weights;  // index into `weights`
  };
  std::vector<Window> windows;
  std::vector<int32_t> weights;
};

int64_t truncated(double value) { return int64_t(value); }  // as Pillow does it, also below zero

Windows make_windows(int64_t from, int64_t to, const Filter& filter) {
  const double scale = double(from) / double(to), stretch = std::max(scale, 1.0), support = filter.support * stretch;
  Windows result;
  std::vector<double> exact;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (double(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, truncated(centre - support + 0.5));
    const int64_t last = std::min<int64_t>(from, truncated(centre + support + 0.5));
    exact.clear();
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      exact.push_back(filter.weight((double(x) - centre + 0.5) * (1.0 / stretch)));
      sum += exact.back();
    }
    result.windows.push_back({first, last - first, result.weights.size()});
    for (double weight : exact) {
      const double scaled = (sum != 0 ? weight / sum : weight) * (1 << kBits);
      result.weights.push_back(int32_t(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  return result;
}

uint8_t clip(int32_t sum) { return uint8_t(std::clamp(sum >> kBits, 0, 255)); }

template <int kChannels>
void resize_rows(const Image& from, Image& to, const Windows& windows) {
  for (int64_t y = 0; y < from.height; ++y) {
    uint8_t* out = to.at(0, y);
    for (const auto& window : windows.windows) {
      const int32_t* weight = windows.weights.data() + window.weights;
      const uint8_t* in = from.at(window.first, y);
      int32_t sum[kChannels];
      for (int c = 0; c < kChannels; ++c) sum[c] = 1 << (kBits - 1);
      for (int64_t i = 0; i < window.count; ++i)
        for (int c = 0; c < kChannels; ++c) sum[c] += *in++ * weight[i];
      for (int c = 0; c < kChannels; ++c) *out++ = clip(sum[c]);
    }
  }
}

void resize_columns(const Image& from, Image& to, const Windows& windows) {
  const size_t row = size_t(from.width * from.channels);
  std::vector<int32_t> sums(row);
  for (int64_t y = 0; y < to.height; ++y) {
    const auto& window = windows.windows[size_t(y)];
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (int64_t i = 0; i < window.count; ++i) {
      const int32_t weight = windows.weights[window.weights + size_t(i)];
      const uint8_t* in = from.at(0, window.first + i);
      for (size_t x = 0; x < row; ++x) sums[x] += in[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), to.at(0, y), clip);
  }
}

}  // namespace

Image resize(const Image& image, int64_t width, int64_t height, ResizeFilter filter) {
  const Filter kernel = filter == ResizeFilter::bilinear ? Filter{1, triangle} : Filter{2, cubic};
  Image wide;
  const Image* current = &image;
  if (width != image.width) {
    wide = make_image(width, image.height, image.channels);
    const Windows windows = make_windows(image.width, width, kernel);
    if (image.channels == 1) resize_rows<1>(image, wide, windows);
    else resize_rows<3>(image, wide, windows);
    current = &wide;
  }
  if (height == image.height) return *current;
  Image result = make_image(width, height, image.channels);
  resize_columns(*current, result, make_windows(image.height, height, kernel));
  return result;
}

Size size_of_short_side(int64_t width, int64_t height, int64_t size) {
  if (width <= height) return {size, size * height / width};
  return {size * width / height, size};
}

Size corner_of_crop(const Size& picture, const Size& crop) {
  if (crop.width > picture.width || crop.height > picture.height)
    fail(ErrorKind::usage, "cannot cut ", crop.width, "x", crop.height, " pixels out of a picture of ", picture.width,
         "x", picture.height, "; resize to at least the size of the crop");
  const auto offset = [](int64_t rest) { return rest % 2 == 0 ? rest / 2 : rest / 2 + (rest / 2) % 2; };
  return {offset(picture.width - crop.width), offset(picture.height - crop.height)};
}

Image centre_crop(const Image& image, int64_t width, int64_t height) {
  const Size corner = corner_of_crop({image.width, image.height}, {width, height});
  Image result = make_image(width, height, image.channels);
  for (int64_t y = 0; y < height; ++y)
    std::copy_n(image.at(corner.width, corner.height + y), size_t(width * image.channels), result.at(0, y));
  return result;
}

}  // namespace temper
