// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or are a picture of no more pixels than the limit, with three channels, as large as
// their header says.
#include <cstdio>
#include <cstdlib>

#include "picture/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  constexpr int64_t kLimit = 1 << 20;
  try {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    const Image told = picture_size(bytes, kLimit), image = decode_image(bytes, kLimit);
    if (image.width * image.height <= kLimit && int64_t(image.pixels.size()) == 3 * image.width * image.height &&
        told.width == image.width && told.height == image.height)
      return 0;
    std::fprintf(stderr, "%lld x %lld pixels in %zu bytes\n", static_cast<long long>(image.width),
                 static_cast<long long>(image.height), image.pixels.size());
  } catch (const Error&) { return 0; }
  std::abort();
}
