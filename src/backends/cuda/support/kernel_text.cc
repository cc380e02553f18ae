// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/kernel_text.h"

#include <algorithm>
#include <string>

#include "base/gunzip.h"

namespace temper {
std::string_view
kernel_texts_gz();  // embedded: names and texts, each with a byte 1 behind it (cmake/embed_texts.cmake)
}

namespace temper::cuda {

static std::vector<KernelText> split(std::string_view all) {
  const auto next = [&] {
    const std::string_view one = all.substr(0, all.find('\0'));
    all.remove_prefix(one.size() + 1);
    return one;
  };
  std::vector<KernelText> texts;
  while (!all.empty()) {
    const std::string_view path = next();
    texts.push_back({path, next()});
  }
  return texts;
}

std::span<const KernelText> kernel_texts() {
  static const std::string all = [] {
    std::string texts = gunzip(kernel_texts_gz(), "the kernels' text");
    std::replace(texts.begin(), texts.end(), '\1', '\0');  // which CMake cannot write
    return texts;
  }();
  static const std::vector<KernelText> texts = split(all);
  return texts;
}

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
