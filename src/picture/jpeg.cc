// SPDX-License-Identifier: Apache-2.0
// Reads JPEG by libjpeg(-turbo). Its defaults (accurate integer DCT, smooth chroma upsampling) are those of PIL.
#include <cstdio>  // jpeglib.h needs FILE
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <memory>

#include "picture/image.h"

namespace temper {
namespace {

// Scans of a progressive picture cost time and no bytes; a hostile file has thousands.
constexpr int kMaxScans = 256;

// libjpeg reports errors through callbacks that must not return. It is C code, through which no exception may pass, so
// the callbacks keep the message and jump; nothing with a destructor lives between the jump and its target.
struct ErrorState {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void give_up(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  state->manager.format_message(info, state->message);
  std::longjmp(state->jump, 1);
}

// libjpeg only warns of damaged data and paints over it with grey; a wrong picture is worse than none. Harmless
// oddities stay allowed: bytes between markers, data after the last row, unusual version or colour tags.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // trace
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA: return;
    default: give_up(info);
  }
}

void on_progress(j_common_ptr info) {
  auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= kMaxScans) return;
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  std::snprintf(state->message, sizeof state->message, "more than %d progressive scans", kMaxScans);
  std::longjmp(state->jump, 1);
}

enum class Outcome { decoded, damaged, too_large };

// PIL's formulas. It takes every CMYK file for one of Adobe's, which hold the complements, as nearly all do: c, m, y, k
// here are 255 less ink. Products are divided by 255 and rounded.
void rgb_of_cmyk(const JSAMPLE* from, uint8_t* to, int64_t count) {
  const auto without = [](int paper, int colour) {
    const int product = (255 - colour) * paper + 128;
    return uint8_t(std::max(0, paper - (((product >> 8) + product) >> 8)));
  };
  for (int64_t i = 0; i < count; ++i, from += 4, to += 3)
    for (int c = 0; c < 3; ++c) to[c] = without(from[3], from[c]);
}

// Apart from decode_jpeg because what a function changes between setjmp and longjmp is lost unless it lives elsewhere.
Outcome decode_into(Image& image, std::vector<uint8_t>& inks, jpeg_decompress_struct& decoder, ErrorState& errors,
                    std::span<const std::byte> bytes, int64_t limit, Decode what) {
  if (setjmp(errors.jump)) return Outcome::damaged;
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&decoder, TRUE);
  image.width = decoder.image_width;
  image.height = decoder.image_height;
  if (image.width * image.height > limit) return Outcome::too_large;
  if (what == Decode::size) return Outcome::decoded;
  const bool cmyk = decoder.num_components == 4;  // or YCCK, of which libjpeg makes CMYK
  decoder.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&decoder);
  image.pixels.resize(size_t(image.width * image.height * 3));
  if (cmyk) inks.resize(size_t(image.width * 4));
  while (decoder.output_scanline < decoder.output_height) {
    uint8_t* const to = image.at(0, decoder.output_scanline);
    JSAMPROW row = cmyk ? inks.data() : to;
    jpeg_read_scanlines(&decoder, &row, 1);
    if (cmyk) rgb_of_cmyk(row, to, image.width);
  }
  jpeg_finish_decompress(&decoder);
  return Outcome::decoded;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  ErrorState errors = {};
  jpeg_decompress_struct decoder = {};
  decoder.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = give_up;
  errors.manager.emit_message = on_message;
  jpeg_create_decompress(&decoder);
  const std::unique_ptr<jpeg_decompress_struct, decltype(&jpeg_destroy_decompress)> release(&decoder,
                                                                                            jpeg_destroy_decompress);
  jpeg_progress_mgr progress = {};
  progress.progress_monitor = on_progress;
  decoder.progress = &progress;

  Image image;
  std::vector<uint8_t> inks;  // of a row
  switch (decode_into(image, inks, decoder, errors, bytes, limit, what)) {
    case Outcome::decoded: return image;
    case Outcome::damaged: fail(ErrorKind::bad_file, "a damaged JPEG picture: ", std::string_view(errors.message));
    case Outcome::too_large: break;
  }
  check_pixels(image.width, image.height, limit);
  return image;
}

}  // namespace temper
