// SPDX-License-Identifier: Apache-2.0
// Any bytes, cut into files at each byte 1, either end in an Error or are explained, with gains that are shares.
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "bench/explain_text.h"
#include "interop/layer_engines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace temper;
  std::vector<LayerFile> files;
  for (size_t at = 0; at <= size;) {
    size_t end = at;
    while (end < size && data[end] != 1) ++end;
    files.push_back({"f.json", std::string(reinterpret_cast<const char*>(data) + at, end - at)});
    at = end + 1;
  }
  ExplainedSet set;
  try {
    std::vector<Explanation> all;
    for (const EngineLayers& engine : engines_of(files)) all.push_back(explain(engine));
    set = compare_engines(std::move(all));
  } catch (const Error&) { return 0; }
  text_of(set);
  for (const Explanation& e : set.engines) {
    text_of(e);
    for (const Finding& f : e.findings)
      if (f.gain_share && !(*f.gain_share >= 0 && *f.gain_share <= 1)) {
        std::fprintf(stderr, "%s gains %g of the time\n", f.id.c_str(), *f.gain_share);
        std::abort();
      }
  }
  return 0;
}
