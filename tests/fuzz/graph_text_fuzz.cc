// SPDX-License-Identifier: Apache-2.0
// Any text either ends in an Error or gives a graph whose text reads back as the same text.
#include <cstdio>
#include <cstdlib>

#include "graph/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  std::string once;
  try {
    once = print(parse_graph({reinterpret_cast<const char*>(data), size}));
  } catch (const Error&) { return 0; }
  std::string twice;
  try {
    twice = print(parse_graph(once));
  } catch (const Error& error) { twice = error.what(); }
  if (once != twice) {
    std::fprintf(stderr, "printed:\n%s\nread back:\n%s\n", once.c_str(), twice.c_str());
    std::abort();
  }
  return 0;
}
