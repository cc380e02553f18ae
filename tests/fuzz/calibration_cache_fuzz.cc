// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or give a cache whose text reads back as the same cache; so do the ranges made of
// it.
#include <cstdio>
#include <cstdlib>

#include "quantize/cache.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  CalibrationCache cache;
  try {
    cache = parse_cache({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) { return 0; }
  // A name may hold what the format cannot carry back only where the reader let a carriage return pass.
  std::string once;
  try {
    once = to_text(cache);
  } catch (const Error&) {
    for (const auto& [name, scale] : cache.entries)
      if (name.find('\r') != name.npos) return 0;
    std::fprintf(stderr, "read, but not written\n");
    std::abort();
  }
  std::string again = to_text(cache_of(ranges_of(cache, "")));
  if (to_text(parse_cache(once)) != once || again != once) {
    std::fprintf(stderr, "written:\n%s\nread back and through ranges:\n%s\n", once.c_str(), again.c_str());
    std::abort();
  }
  return 0;
}
