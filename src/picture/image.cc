// SPDX-License-Identifier: Apache-2.0
#include "picture/image.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/file.h"

namespace temper {

void check_pixels(int64_t width, int64_t height, int64_t limit) {
  if (width < 1 || height < 1 || width > limit / height)
    fail(ErrorKind::bad_file, "a picture of ", width, "x", height, " pixels; the limit is ", limit, " in all");
}

Image make_image(int64_t width, int64_t height, int64_t channels) {
  check_pixels(width, height, kMaxPixels);
  Image image{width, height, channels, {}};
  image.pixels.resize(size_t(width * height * channels));
  return image;
}

namespace {

Image decode(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  using namespace std::string_view_literals;  // magics with zeros in them
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 16));
  const std::string_view kind = start.size() == 16 ? start.substr(4, 8) : "";  // behind a length
  if (start.starts_with("\xff\xd8")) return decode_jpeg(bytes, limit, what);
  if (start.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, limit, what);
  if (start.starts_with("RIFF") && start.size() == 16 && start.substr(8, 4) == "WEBP")
    return decode_webp(bytes, limit, what);
  if (start.starts_with("BM")) return decode_bmp(bytes, limit, what);
  if (start.starts_with("II*\0"sv) || start.starts_with("MM\0*"sv) || start.starts_with("II+\0"sv) ||
      start.starts_with("MM\0+"sv))
    return decode_tiff(bytes, limit, what);
  const bool is_pnm = start.size() > 2 && start[0] == 'P' && start[1] >= '1' && start[1] <= '7' &&
                      std::string_view(" \t\r\n\v\f").find(start[2]) != std::string_view::npos;
  if (is_pnm) return decode_pnm(bytes, limit, what);
  if (bytes.empty()) fail(ErrorKind::bad_file, "an empty file, not a picture");
  if (start.starts_with("GIF8") || kind == "ftypavif" || kind.starts_with("ftyphei"))
    fail(ErrorKind::unsupported, "a GIF, AVIF or HEIC picture; convert it to JPEG, PNG, WebP, BMP or TIFF");
  if (start.starts_with("\0\0\0\x0cjP  "sv) || start.starts_with("\xff\x4f\xff\x51"))
    fail(ErrorKind::unsupported, "a JPEG 2000 picture; convert it to JPEG or PNG");
  fail(ErrorKind::bad_file, "not a picture in JPEG, PNG, WebP, BMP, TIFF or PNM");
}

}  // namespace

Image decode_image(std::span<const std::byte> bytes, int64_t limit) { return decode(bytes, limit, Decode::pixels); }

Image picture_size(std::span<const std::byte> bytes, int64_t limit) { return decode(bytes, limit, Decode::size); }

Image read_image(const std::string& path) {
  MappedFile file(path);
  return with_context([&] { return concat("'", path, "'"); }, [&] { return decode_image(file.bytes()); });
}

bool has_image_extension(const std::string& path) {
  std::string lower = path;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  for (std::string_view end : {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".pnm"})
    if (lower.ends_with(end)) return true;
  return false;
}

Image to_grey(const Image& image) {
  if (image.channels == 1) return image;
  Image result = make_image(image.width, image.height, 1);
  for (size_t i = 0; i < result.pixels.size(); ++i) {
    const uint8_t* p = image.pixels.data() + 3 * i;
    result.pixels[i] = uint8_t((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
  }
  return result;
}

}  // namespace temper
