// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/kernel_text.h"

#include <algorithm>

namespace temper::cuda {

std::vector<KernelText> included_texts(std::string_view text) {
  constexpr std::string_view start = "#include \"";
  std::vector<KernelText> out;
  std::vector<std::string_view> unread{text};
  while (!unread.empty()) {
    const std::string_view reading = unread.back();
    unread.pop_back();
    for (size_t at = reading.find(start); at != reading.npos; at = reading.find(start, at + 1)) {
      const std::string_view rest = reading.substr(at + start.size());
      const std::string_view path = rest.substr(0, rest.find('"'));
      const auto same = [&](const KernelText& known) { return known.path == path; };
      const auto found = std::find_if(kernel_texts().begin(), kernel_texts().end(), same);
      if (found == kernel_texts().end() || std::any_of(out.begin(), out.end(), same)) continue;
      out.push_back(*found);
      unread.push_back(found->text);
    }
  }
  return out;
}

}  // namespace temper::cuda
