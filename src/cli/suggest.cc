// SPDX-License-Identifier: Apache-2.0
#include "cli/suggest.h"

#include <algorithm>

#include "base/concat.h"

namespace temper::cli {

namespace {

// Restricted: no letter is changed twice.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> least(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  return least[a.size()][b.size()];
}

}  // namespace

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;  // no name is longer, and the table is its square
  if (word.size() > kLongest) return "";
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& one : known) {
    if (one.size() > kLongest) continue;
    if (const size_t apart = distance(word, one); apart < least) {
      least = apart;
      nearest = &one;
    }
  }
  return nearest ? concat("; perhaps '", *nearest, "' is meant") : "";
}

}  // namespace temper::cli
