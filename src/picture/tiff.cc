// SPDX-License-Identifier: Apache-2.0
// Reads TIFF by libtiff, which is opened when the first TIFF is read: Debian's links JBIG-KIT, which is under the GPL
// and must be in no package or wheel of ours. Its headers serve for the types alone.
#include <dlfcn.h>
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "picture/image.h"

namespace temper {
namespace {

constexpr const char* kName = "libtiff.so.6";  // of 4.5 and later, which have handlers for each file

struct Library {
  decltype(&TIFFOpenOptionsAlloc) options_alloc = nullptr;
  decltype(&TIFFOpenOptionsFree) options_free = nullptr;
  decltype(&TIFFOpenOptionsSetMaxSingleMemAlloc) set_max_alloc = nullptr;
  decltype(&TIFFOpenOptionsSetErrorHandlerExtR) set_error_handler = nullptr;
  decltype(&TIFFOpenOptionsSetWarningHandlerExtR) set_warning_handler = nullptr;
  decltype(&TIFFClientOpenExt) open = nullptr;
  decltype(&TIFFClose) close = nullptr;
  decltype(&TIFFGetField) get = nullptr;
  decltype(&TIFFSetField) set = nullptr;
  decltype(&TIFFRGBAImageOK) readable = nullptr;
  decltype(&TIFFReadRGBAImageOriented) read = nullptr;
  bool complete = false;

  Library() {
    void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);  // stays open
    if (!library) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    complete = find(options_alloc, "TIFFOpenOptionsAlloc") && find(options_free, "TIFFOpenOptionsFree") &&
               find(set_max_alloc, "TIFFOpenOptionsSetMaxSingleMemAlloc") &&
               find(set_error_handler, "TIFFOpenOptionsSetErrorHandlerExtR") &&
               find(set_warning_handler, "TIFFOpenOptionsSetWarningHandlerExtR") && find(open, "TIFFClientOpenExt") &&
               find(close, "TIFFClose") && find(get, "TIFFGetField") && find(set, "TIFFSetField") &&
               find(readable, "TIFFRGBAImageOK") && find(read, "TIFFReadRGBAImageOriented");
  }
};

const Library& library() {
  static const Library loaded;
  if (!loaded.complete)
    fail(ErrorKind::unsupported, "a TIFF picture, which needs ", kName,
         " (Debian and Ubuntu: apt-get install libtiff6); or convert it to PNG");
  return loaded;
}

// The source that libtiff reads from: the bytes of a file, and the first thing that it complained of.
struct Source {
  std::span<const std::byte> bytes;
  uint64_t at = 0;
  char message[200] = "";
};

tmsize_t read(thandle_t handle, void* to, tmsize_t size) {
  auto& source = *static_cast<Source*>(handle);
  const uint64_t rest = source.at < source.bytes.size() ? source.bytes.size() - source.at : 0;
  const auto count = std::min(rest, uint64_t(std::max<tmsize_t>(size, 0)));
  if (count) std::memcpy(to, source.bytes.data() + source.at, count);
  source.at += count;
  return tmsize_t(count);
}
tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int whence) {
  auto& source = *static_cast<Source*>(handle);
  return source.at = offset + (whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.bytes.size() : 0);
}
int close(thandle_t) { return 0; }
toff_t size(thandle_t handle) { return static_cast<Source*>(handle)->bytes.size(); }
int keep_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto& source = *static_cast<Source*>(user);
  if (!source.message[0]) std::vsnprintf(source.message, sizeof source.message, format, arguments);
  return 1;  // nothing is printed
}
int drop_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }  // of unknown tags, mostly

// Where pixel (x, y) of the stored picture is seen, by TIFF's orientation (1 to 8: what the first row and column are).
Image oriented(const uint32_t* raster, int64_t width, int64_t height, int orientation) {
  const bool turned = orientation >= 5;
  Image image = make_image(turned ? height : width, turned ? width : height, 3);
  const bool mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 6;
  const bool upside_down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t column = turned ? y : x, row = turned ? x : y;
      uint8_t* to = image.at(mirrored ? image.width - 1 - column : column, upside_down ? image.height - 1 - row : row);
      const uint32_t pixel = raster[y * width + x];
      to[0] = uint8_t(TIFFGetR(pixel)), to[1] = uint8_t(TIFFGetG(pixel)), to[2] = uint8_t(TIFFGetB(pixel));
    }
  return image;
}

}  // namespace

Image decode_tiff(std::span<const std::byte> bytes, int64_t limit, Decode what) {
  const Library& tiff = library();
  Source source{bytes};
  const auto damaged = [&] {
    fail(ErrorKind::bad_file,
         "a damaged TIFF picture: ", std::string_view(source.message[0] ? source.message : "it cannot be read"));
  };
  const std::unique_ptr<TIFFOpenOptions, decltype(tiff.options_free)> options(tiff.options_alloc(), tiff.options_free);
  tiff.set_max_alloc(options.get(), 4 * limit + 4096);
  tiff.set_error_handler(options.get(), keep_error, &source);
  tiff.set_warning_handler(options.get(), drop_warning, nullptr);
  const std::unique_ptr<TIFF, decltype(tiff.close)> file(
      tiff.open("", "rm", &source, read, write, seek, close, size, nullptr, nullptr, options.get()), tiff.close);
  if (!file) damaged();
  uint32_t width = 0, height = 0;
  uint16_t orientation = 1, extras = 0;
  uint16_t* extra = nullptr;
  if (!tiff.get(file.get(), TIFFTAG_IMAGEWIDTH, &width) || !tiff.get(file.get(), TIFFTAG_IMAGELENGTH, &height))
    damaged();
  check_pixels(width, height, limit);
  if (!tiff.get(file.get(), TIFFTAG_ORIENTATION, &orientation) || orientation < 1 || orientation > 8) orientation = 1;
  if (what == Decode::size) return {orientation >= 5 ? height : width, orientation >= 5 ? width : height, 3, {}};
  tiff.set(file.get(), TIFFTAG_ORIENTATION, int(ORIENTATION_TOPLEFT));  // as stored; oriented() turns all eight
  // Transparency is dropped. libtiff would multiply colours by it unless it is told that this has been done.
  if (tiff.get(file.get(), TIFFTAG_EXTRASAMPLES, &extras, &extra) && extras > 0) {
    const std::vector<uint16_t> done(extras, EXTRASAMPLE_ASSOCALPHA);
    tiff.set(file.get(), TIFFTAG_EXTRASAMPLES, int(extras), done.data());
  }
  char why[1024] = "";
  if (!tiff.readable(file.get(), why))
    fail(ErrorKind::unsupported,
         "a TIFF picture of a kind that libtiff does not turn into RGB: ", std::string_view(why),
         "; convert it to PNG");
  std::vector<uint32_t> raster(size_t(width) * height);
  if (!tiff.read(file.get(), width, height, raster.data(), ORIENTATION_TOPLEFT, 1) || source.message[0]) damaged();
  return oriented(raster.data(), width, height, orientation);
}

}  // namespace temper
