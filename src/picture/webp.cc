// SPDX-License-Identifier: Apache-2.0
// Reads WebP by libwebp.
#include <webp/decode.h>

#include "picture/image.h"

namespace temper {

Image decode_webp(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK)
    fail(ErrorKind::bad_file, "a damaged WebP picture: its header is not whole");
  if (features.has_animation) fail(ErrorKind::unsupported, "an animated WebP; save one of its pictures as PNG");
  check_pixels(features.width, features.height, limit);
  if (what == Decode::size) return {features.width, features.height, 3, {}};
  Image image = make_image(features.width, features.height, 3);
  if (!WebPDecodeRGBInto(data, bytes.size(), image.pixels.data(), image.pixels.size(), int(3 * image.width)))
    fail(ErrorKind::bad_file, "a damaged WebP picture: its data is cut short or contradicts itself");
  return image;
}

}  // namespace temper
