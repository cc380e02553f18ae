// SPDX-License-Identifier: Apache-2.0
// Reads PGM and PPM in bytes (P5, P6). stb_image's reader takes the end of a file for black rows, and numbers of any
// length.
#include <algorithm>
#include <cmath>

#include "picture/image.h"

namespace temper {
namespace {

constexpr bool is_blank(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

[[noreturn]] void damaged(std::string_view why) { fail(ErrorKind::bad_file, "a damaged PNM picture: ", why); }

// The numbers of a header: behind blanks and comments, which go to the end of their line.
struct Header {
  std::span<const std::byte> bytes;
  size_t at = 2;

  uint8_t next() {
    if (at == bytes.size()) damaged("it ends inside its header");
    return uint8_t(bytes[at++]);
  }
  int64_t number() {
    uint8_t c = next();
    while (is_blank(c) || c == '#') {
      if (c == '#')
        while (c != '\n' && c != '\r') c = next();
      c = next();
    }
    int64_t value = 0;
    if (c < '0' || c > '9') damaged("its header has something else than a number");
    for (; c >= '0' && c <= '9'; c = next()) {
      value = value * 10 + (c - '0');
      if (value > kMaxPixels) damaged("a number of its header is too large");
    }
    --at;
    return value;
  }
};

}  // namespace

Image decode_pnm(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  const char kind = char(bytes[1]);
  if (kind != '5' && kind != '6')
    fail(ErrorKind::unsupported, "a PNM picture of the kind P", kind, "; P5 and P6 are read: convert it to PNG");
  Header header{bytes};
  const int64_t width = header.number(), height = header.number(), largest = header.number();
  if (!is_blank(header.next())) damaged("its header has something else than a number");
  if (largest < 1 || largest > 65535) damaged("its largest sample is none of 1 to 65535");
  if (largest > 255) fail(ErrorKind::unsupported, "a PNM picture of 16 bits; convert it to PNG");
  check_pixels(width, height, limit);
  const int64_t samples = kind == '6' ? 3 : 1;
  if (width * height * samples > int64_t(bytes.size() - header.at)) damaged("it ends before its last row");
  if (what == Decode::size) return {width, height, 3, {}};
  uint8_t scaled[256];  // as Pillow has it
  for (int v = 0; v < 256; ++v) scaled[v] = uint8_t(std::min(255.0, std::nearbyint(double(v) / double(largest) * 255)));
  Image image = make_image(width, height, 3);
  const std::byte* from = bytes.data() + header.at;
  for (int64_t i = 0; i < width * height; ++i)
    for (int64_t c = 0; c < 3; ++c)
      image.pixels[size_t(3 * i + c)] = scaled[size_t(from[i * samples + (samples == 3 ? c : 0)])];
  return image;
}

}  // namespace temper
