// SPDX-License-Identifier: Apache-2.0
#include "graph/caches.h"

#include <algorithm>

namespace temper::caches {

std::vector<std::pair<std::string, std::string>> pairs_by_name(const std::vector<std::string>& inputs,
                                                               const std::vector<std::string>& outputs) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& input : inputs)
    for (const std::string_view past : {"past_key_values", "past"}) {
      const size_t at = input.find(past);
      if (at == std::string::npos) continue;
      std::string output;
      for (const std::string_view present : {"present_key_values", "present"}) {
        std::string name = input;
        name.replace(at, past.size(), present);
        if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) output = name;
      }
      if (output.empty()) continue;
      pairs.emplace_back(input, output);
      break;
    }
  return pairs;
}

}  // namespace temper::caches
