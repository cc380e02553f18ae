// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or are an archive whose arrays are no larger together than the limit.
#include <cstdio>
#include <cstdlib>

#include "data/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  constexpr int64_t kLimit = 1 << 20;
  int64_t bytes = 0;
  try {
    for (const auto& [name, tensor] : parse_npz({reinterpret_cast<const std::byte*>(data), size}, kLimit))
      bytes += int64_t(tensor.raw().size());
  } catch (const Error&) { return 0; }
  if (bytes > kLimit) {
    std::fprintf(stderr, "%lld bytes came out of an archive\n", static_cast<long long>(bytes));
    std::abort();
  }
  return 0;
}
