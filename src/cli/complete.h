// SPDX-License-Identifier: Apache-2.0
// Lists the completions of the word that is being typed in a shell: the program's own words, and the names that the
// files on the line hold. The scripts in src/cli/completions ask for it by `temper --complete WORDS...`.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace temper::cli {

struct KnownOption {
  std::vector<std::string> names;  // "-o", "--output"; none for an argument without a name
  std::string text;
  bool takes_value = false;
  std::vector<std::string> choices;  // where only these are allowed
};
struct KnownVerb {
  std::string name, text;
  std::vector<KnownOption> options;
};

struct Offer {
  // Which files the shell shall offer as well: "-" none, "/" folders, "*" any, or endings: ".onnx .plan".
  std::string files = "-";
  std::vector<std::pair<std::string, std::string>> words;  // whole words, each with what it means

  bool operator==(const Offer&) const = default;
};

// `words`: those behind the program's name up to the cursor, the last one as far as it is typed ("" for a new one).
// Files that cannot be read offer nothing; nothing is thrown for them.
Offer offer_for(const std::vector<KnownVerb>& verbs, const std::vector<std::string>& words);

// The lines that the scripts read: the files, then each word with its meaning behind a tab.
std::string text_of(const Offer& offer);

}  // namespace temper::cli
