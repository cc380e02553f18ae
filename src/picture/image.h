// SPDX-License-Identifier: Apache-2.0
// Reads pictures: JPEG, PNG, WebP, BMP, TIFF and PNM become 8-bit RGB.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace temper {

// Rows from top to bottom, pixels from left to right, channels interleaved (height x width x channels).
struct Image {
  int64_t width = 0, height = 0, channels = 3;  // 3: red, green, blue; 1: grey
  std::vector<uint8_t> pixels;

  const uint8_t* at(int64_t x, int64_t y) const { return pixels.data() + (y * width + x) * channels; }
  uint8_t* at(int64_t x, int64_t y) { return pixels.data() + (y * width + x) * channels; }
};
Image make_image(int64_t width, int64_t height, int64_t channels);  // black

constexpr int64_t kMaxPixels = int64_t(1) << 27;  // width * height; a larger picture is refused before it is decoded

// The kind is told by the first bytes, not by the file's name. The result always has three channels: grey is repeated,
// transparency dropped, 16-bit samples cut to their upper 8 bits (of TIFF: rounded), and CMYK becomes RGB by PIL's
// formula, which knows no ink profile. The first page of a TIFF counts. The orientation of EXIF is not applied, that of
// TIFF is, as in PIL and torchvision. Throws Error{bad_file} for what is damaged or no picture and above `limit`
// pixels, Error{unsupported} for other formats, for animations, and for TIFF where the machine lacks libtiff.
Image decode_image(std::span<const std::byte> bytes, int64_t limit = kMaxPixels);
// The same of the header alone: the picture has its width and height, and no pixels. What is damaged behind the header
// is not seen.
Image picture_size(std::span<const std::byte> bytes, int64_t limit = kMaxPixels);
Image read_image(const std::string& path);          // errors name the path
bool has_image_extension(const std::string& path);  // one of kImageExtensions in any case
constexpr const char* kImageExtensions = ".jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff, .pgm, .ppm or .pnm";

enum class Decode { size, pixels };
Image decode_jpeg(std::span<const std::byte> bytes, int64_t limit, Decode what);
Image decode_png(std::span<const std::byte> bytes, int64_t limit, Decode what);
Image decode_bmp(std::span<const std::byte> bytes, int64_t limit, Decode what);
Image decode_webp(std::span<const std::byte> bytes, int64_t limit, Decode what);
Image decode_tiff(std::span<const std::byte> bytes, int64_t limit, Decode what);
Image decode_pnm(std::span<const std::byte> bytes, int64_t limit, Decode what);
// Throws Error{bad_file} for no pixels, and for more than `limit`.
void check_pixels(int64_t width, int64_t height, int64_t limit);

// ITU-R 601-2 luma, (19595 R + 38470 G + 7471 B + 32768) >> 16, which is PIL's convert("L").
Image to_grey(const Image& image);

}  // namespace temper
