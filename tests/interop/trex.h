// SPDX-License-Identifier: Apache-2.0
// The layer files of five engines; fixtures/trex/README.md says where they come from.
#pragma once
#include <sstream>

#include "logs.h"

namespace temper {

// A file of times as trtexec --exportTimes writes it, with the latencies of a .times file.
inline std::string expanded_times(const std::string& text) {
  std::istringstream in(text);
  std::string word, enqueue, ms, out;
  in >> word >> enqueue;
  for (int runs; in >> ms >> runs;)
    for (int i = 0; i < runs; ++i)
      out += concat(out.empty() ? "[\n  " : ", ", R"({ "startEnqMs" : 0, "endEnqMs" : )", enqueue,
                    R"(, "h2dMs" : 0, "computeMs" : )", ms, R"(, "d2hMs" : 0, "latencyMs" : )", ms, " }\n");
  return out + "]\n";
}

// `kind`: ".graph.json", ".profile.json" or ".timing.json".
inline std::string trex_file(const std::string& name, const std::string& kind) {
  if (kind == ".timing.json" && name != "fp32") return expanded_times(fixture(concat("trex/", name, ".times")));
  return fixture(concat("trex/", name, kind));
}

}  // namespace temper
