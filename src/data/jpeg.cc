// SPDX-License-Identifier: Apache-2.0
// libjpeg(-turbo). Its defaults (accurate integer DCT, smooth chroma upsampling) are those of PIL.
#include <cstdio>  // jpeglib.h needs FILE
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <memory>

#include "data/image.h"

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

enum class Outcome { decoded, damaged, too_large, cmyk };

// Apart from decode_jpeg because what a function changes between setjmp and longjmp is lost unless it lives elsewhere.
Outcome decode_into(Image& image, jpeg_decompress_struct& decoder, ErrorState& errors,
                    std::span<const std::byte> bytes) {
  if (setjmp(errors.jump)) return Outcome::damaged;
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&decoder, TRUE);
  image.width = decoder.image_width;
  image.height = decoder.image_height;
  if (image.width * image.height > kMaxPixels) return Outcome::too_large;
  if (decoder.num_components == 4) return Outcome::cmyk;
  decoder.out_color_space = JCS_RGB;
  jpeg_start_decompress(&decoder);
  image.pixels.resize(size_t(image.width * image.height * 3));
  while (decoder.output_scanline < decoder.output_height) {
    JSAMPROW row = image.at(0, decoder.output_scanline);
    jpeg_read_scanlines(&decoder, &row, 1);
  }
  jpeg_finish_decompress(&decoder);
  return Outcome::decoded;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes) {
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
  switch (decode_into(image, decoder, errors, bytes)) {
    case Outcome::decoded: return image;
    case Outcome::damaged: fail(ErrorKind::bad_file, "a damaged JPEG picture: ", std::string_view(errors.message));
    case Outcome::cmyk:
      fail(ErrorKind::unsupported, "a CMYK picture, whose colours depend on an ink profile; convert it to RGB");
    case Outcome::too_large: break;
  }
  fail(ErrorKind::bad_file, "a picture of ", image.width, "x", image.height, " pixels; the limit is ", kMaxPixels,
       " in all");
}

}  // namespace temper
