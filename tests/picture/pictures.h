// SPDX-License-Identifier: Apache-2.0
// A picture that PIL makes, and what it gives for it, to compare with.
#pragma once
#include <algorithm>
#include <cmath>

#include "../data/helpers.h"
#include "data/npy.h"
#include "picture/image.h"

namespace temper {

// The largest difference of any channel from the (height, width, channels) array that NumPy saved.
inline int worst_difference(const Image& image, const std::string& npy) {
  const Tensor expected = read_npy(npy);
  EXPECT_EQ(expected.dims(), (Dims{image.height, image.width, image.channels}));
  if (expected.count() != int64_t(image.pixels.size())) return 999;
  int worst = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    worst = std::max(worst, std::abs(int(expected.data<uint8_t>()[i]) - int(image.pixels[i])));
  return worst;
}

constexpr const char* kPictures = R"(
y, x = np.mgrid[0:97, 0:131]
r = np.random.RandomState(1)
a = np.stack([x * 255 // 131, y * 255 // 97, (x * y) % 256], 2).astype('u1')
a[20:60, 30:70] = r.randint(0, 256, (40, 40, 3))
im = Image.fromarray(a)
)";

}  // namespace temper
