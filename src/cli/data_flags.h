// SPDX-License-Identifier: Apache-2.0
// The options about data, the same in every verb that reads any: how pictures become inputs, labels, class names.
#pragma once
#include <string>
#include <vector>

#include "cli/command.h"
#include "data/batches.h"

namespace temper::cli {

// Holds what the flags say; lives as long as the subcommand (verbs keep it in their shared options).
struct DataFlags {
  static constexpr const char* kGroup = "Pictures and labels";  // under which --help lists them
  static constexpr const char* kStrict =
      "stop at a picture that cannot be read; without it such a picture is left out with a warning";
  int64_t resize = -1, pad = -1;
  std::string preprocess, fit, crop, scale, layout, filter, label_column, class_names;
  std::vector<std::string> mean, std;
  bool bgr = false, strict = false;

  void add_to(Command& verb);  // --strict but where the verb has one that says more
  // `memory_limit`: bytes that archives may unpack to; -1: by their size. Throws Error{usage} for a value that makes no
  // sense; reads the class names file.
  DatasetOptions options(int64_t memory_limit = -1) const;
  PreprocessOptions pictures() const;  // of those options
  // With these options, so many samples of what lies at the path.
  DataRequest request(const std::string& path, int64_t samples, uint64_t seed, int64_t memory_limit = -1) const;
};

// --input, for parse_input_files; `others` ends its help with what becomes of inputs that are not given.
void add_input_flag(Command& verb, std::vector<std::string>& inputs, const std::string& others = "");
// --state, for parse_state.
void add_state_flag(Command& verb, std::vector<std::string>& states);
// The paths that such arguments may mean, for check_files: FILE, or NAME=FILE, where both may hold a '='.
std::vector<std::string> input_paths(const std::vector<std::string>& arguments);

// Output names as file names: every character other than letters, digits, '.', '_', '-' becomes '_'. Throws
// Error{unsupported} where two outputs would get the same file.
std::vector<std::string> output_file_names(const std::vector<std::string>& outputs);

}  // namespace temper::cli
