// SPDX-License-Identifier: Apache-2.0
// Suggests the word that a user may have meant by one that is not known.
#pragma once
#include <string>
#include <vector>

namespace temper::cli {

// "; perhaps 'build' is meant" where one of the known words is near, otherwise nothing. Near: a third of its letters,
// and at least one, inserted, left out, replaced or swapped with their neighbour (F. Damerau, V. Levenshtein).
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

}  // namespace temper::cli
