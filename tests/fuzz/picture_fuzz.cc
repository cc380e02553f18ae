// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or are a picture of no more pixels than the limit, with three channels.
#include <cstdio>
#include <cstdlib>

#include "picture/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  constexpr int64_t kLimit = 1 << 20;
  try {
    const Image image = decode_image({reinterpret_cast<const std::byte*>(data), size}, kLimit);
    if (image.width * image.height <= kLimit && int64_t(image.pixels.size()) == 3 * image.width * image.height)
      return 0;
    std::fprintf(stderr, "%lld x %lld pixels in %zu bytes\n", static_cast<long long>(image.width),
                 static_cast<long long>(image.height), image.pixels.size());
  } catch (const Error&) { return 0; }
  std::abort();
}
