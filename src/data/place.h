// SPDX-License-Identifier: Apache-2.0
// Describes where a picture lies in the input that a model gets of it.
#pragma once
#include <cstdint>

#include "data/preprocess.h"

namespace temper {

struct Size {
  int64_t width = 0, height = 0;
};
// The short side becomes `size`, the long one int(size * long / short), as torchvision's Resize(size) does.
Size size_of_short_side(int64_t width, int64_t height, int64_t size);
// The pixel at which centre_crop (data/resize.h) begins. Throws as it does.
Size corner_of_crop(const Size& picture, const Size& crop);

// The picture is scaled to width x height, and its corner comes to (left, top).
struct Placed {
  int64_t width = 0, height = 0, left = 0, top = 0;
};
// Throws Error{usage} where the picture is too small for the crop.
Placed place_picture(int64_t width, int64_t height, const Preprocess& preprocess);

}  // namespace temper
