// SPDX-License-Identifier: Apache-2.0
// Resizes pictures by convolution, as PIL's Image.resize does it, and cuts them.
#pragma once
#include "picture/image.h"

namespace temper {

// Antialiased: the filter is widened by the factor by which the picture shrinks. Both passes (horizontal, then
// vertical) round to 8 bits, with weights in 22-bit fixed point: the same results as PIL's Image.resize with BILINEAR
// or BICUBIC.
enum class ResizeFilter { bilinear, bicubic };
Image resize(const Image& image, int64_t width, int64_t height, ResizeFilter filter = ResizeFilter::bilinear);
// The offset is (picture - crop) / 2, rounded half to even as in torchvision. Throws Error{usage} where the picture is
// smaller.
Image centre_crop(const Image& image, int64_t width, int64_t height);

}  // namespace temper
