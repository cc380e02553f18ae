// SPDX-License-Identifier: Apache-2.0
#include "data/labels.h"

#include "base/file.h"

namespace temper {

std::vector<std::string> read_class_names(const std::string& path) {
  const std::string text = read_file(path, size_t(64) << 20);
  std::vector<std::string> names;
  size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string name = text.substr(at, end - at);
    if (name.ends_with('\r')) name.pop_back();
    for (unsigned char c : name)
      if ((c < ' ' && c != '\t') || c == 127)
        fail(ErrorKind::bad_file, "'", path, "': line ", names.size() + 1,
             " holds control characters; class names are a text file, one a line");
    names.push_back(std::move(name));
    at = end + 1;
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) fail(ErrorKind::bad_file, "'", path, "': no class names; they are a text file, one a line");
  return names;
}

}  // namespace temper
