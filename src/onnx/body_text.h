// SPDX-License-Identifier: Apache-2.0
// Writes the parts of a body (OnnxNode::body) that stand there once for each axis, class or step.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace temper {

// `text` with each of the `names`, such as "$k", replaced by what belongs to it. Those of the same beginning are given
// with the longer one first.
inline std::string body_text(std::string text, const std::vector<std::pair<std::string_view, std::string>>& names) {
  for (const auto& [name, value] : names)
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
      text.replace(at, name.size(), value);
  return text;
}

}  // namespace temper
