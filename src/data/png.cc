// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <memory>

#include "data/image.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
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

}  // namespace

Image decode_png(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  check_chunks(data, bytes.size());
  if (bytes.size() > size_t(INT32_MAX))
    fail(ErrorKind::bad_file, "a PNG file of ", bytes.size(), " bytes; the limit is 2 GiB");
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(data, int(bytes.size()), &width, &height, &channels))
    fail(ErrorKind::bad_file, "a damaged PNG picture: ", std::string_view(stbi_failure_reason()));
  if (int64_t(width) * height > kMaxPixels)
    fail(ErrorKind::bad_file, "a picture of ", width, "x", height, " pixels; the limit is ", kMaxPixels, " in all");
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data, int(bytes.size()), &width, &height, &channels, 3), stbi_image_free);
  if (!pixels) fail(ErrorKind::bad_file, "a damaged PNG picture: ", std::string_view(stbi_failure_reason()));
  Image image = make_image(width, height, 3);
  std::memcpy(image.pixels.data(), pixels.get(), image.pixels.size());
  return image;
}

}  // namespace temper
