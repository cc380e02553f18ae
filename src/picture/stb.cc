// SPDX-License-Identifier: Apache-2.0
// Reads PNG and BMP by stb_image.
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "picture/image.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace temper {
namespace {

uint32_t big_endian(const uint8_t* at) {
  return uint32_t(at[0]) << 24 | uint32_t(at[1]) << 16 | uint32_t(at[2]) << 8 | at[3];
}

uint32_t crc32(const uint8_t* at, size_t bytes) {  // the polynomial of ISO 3309, as the PNG specification's annex D
  static const auto table = [] {
    std::array<uint32_t, 256> values;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
      values[i] = value;
    }
    return values;
  }();
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i) crc = table[(crc ^ at[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

// stb_image skips the checksums, so damage could come out as a wrong picture: walk the chunks and compare them first.
void check_chunks(const uint8_t* data, size_t size) {
  constexpr size_t kSignature = 8, kFrame = 12;  // length, type, crc
  for (size_t at = kSignature;;) {
    if (size - at < kFrame) fail(ErrorKind::bad_file, "a damaged PNG picture: it ends before its IEND chunk");
    const size_t length = big_endian(data + at);
    if (length > size - at - kFrame)
      fail(ErrorKind::bad_file, "a damaged PNG picture: a chunk goes beyond the end of the file");
    if (crc32(data + at + 4, length + 4) != big_endian(data + at + 8 + length))
      fail(ErrorKind::bad_file, "a damaged PNG picture: the checksum of a chunk is wrong");
    if (std::memcmp(data + at + 4, "IEND", 4) == 0) return;
    at += kFrame + length;
  }
}

Image decode(std::span<const std::byte> bytes, int64_t limit, Decode what, std::string_view kind) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() > size_t(INT32_MAX))
    fail(ErrorKind::bad_file, "a ", kind, " file of ", format_bytes(double(bytes.size())), "; the limit is 2 GiB");
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(data, int(bytes.size()), &width, &height, &channels))
    fail(ErrorKind::bad_file, "a damaged ", kind, " picture: ", std::string_view(stbi_failure_reason()));
  height = std::abs(height);  // below zero: a BMP whose rows go from top to bottom
  check_pixels(width, height, limit);
  if (what == Decode::size) return {width, height, 3, {}};
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data, int(bytes.size()), &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) fail(ErrorKind::bad_file, "a damaged ", kind, " picture: ", std::string_view(stbi_failure_reason()));
  Image image = make_image(width, height, 3);
  std::memcpy(image.pixels.data(), pixels.get(), image.pixels.size());
  return image;
}

int64_t little_endian(const uint8_t* at, int bytes) {
  uint32_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
  return bytes == 4 ? int64_t(int32_t(value)) : int64_t(value);
}

// stb_image reads zeros behind the end of a BMP, which would be black rows: the file must hold all of its pixels.
void check_whole_bmp(const uint8_t* data, size_t size, int64_t limit) {
  constexpr size_t kHeaders = 14 + 12;  // of the file, and the smallest of a picture
  const auto damaged = [](const auto&... why) { fail(ErrorKind::bad_file, "a damaged BMP picture: ", why...); };
  if (size < kHeaders) damaged("it ends inside its header");
  const int64_t start = little_endian(data + 10, 4), header = little_endian(data + 14, 4);
  const bool old = header == 12;
  if (!old && size < 14 + 40) damaged("it ends inside its header");
  const int64_t width = old ? little_endian(data + 18, 2) : little_endian(data + 18, 4);
  const int64_t height = std::abs(old ? little_endian(data + 20, 2) : little_endian(data + 22, 4));
  const int64_t bits = little_endian(data + (old ? 24 : 28), 2), compression = old ? 0 : little_endian(data + 30, 4);
  if (compression == 1 || compression == 2)
    fail(ErrorKind::unsupported, "a BMP picture with run lengths; convert it to PNG");
  if (width < 1 || bits < 1 || bits > 32) damaged("it claims rows of ", width, " pixels of ", bits, " bits");
  check_pixels(width, height, limit);
  const int64_t row = (width * bits + 31) / 32 * 4;
  if (start < int64_t(kHeaders) || start > int64_t(size) || row * height > int64_t(size) - start)
    damaged("it ends before its last row");
}

}  // namespace

Image decode_png(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  if (what == Decode::pixels) check_chunks(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return decode(bytes, limit, what, "PNG");
}

Image decode_bmp(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  check_whole_bmp(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), limit);
  return decode(bytes, limit, what, "BMP");
}

}  // namespace temper
