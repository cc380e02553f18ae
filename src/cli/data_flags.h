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
  int64_t resize = -1;
  std::string crop, scale, layout, filter, label_column, class_names;
  std::vector<std::string> mean, std;
  bool bgr = false, strict = false;

  void add_to(Command& verb);  // --strict but where the verb has one that says more
  // `memory_limit`: bytes that archives may unpack to; -1: by their size. Throws Error{usage} for a value that makes no
  // sense; reads the class names file.
  DatasetOptions options(int64_t memory_limit = -1) const;
  // With these options, so many samples of what lies at the path.
  DataRequest request(const std::string& path, int64_t samples, uint64_t seed, int64_t memory_limit = -1) const;
};

// "NAME=FILE", or "FILE" with an empty name. What stands before a '=' is a name where the model has such an input, or
// where the whole argument is no file; a path may hold '=' too.
InputFiles parse_input_files(const std::vector<std::string>& arguments, const std::vector<InputSpec>& inputs);

// Output names as file names: every character other than letters, digits, '.', '_', '-' becomes '_'. Throws
// Error{unsupported} where two outputs would get the same file.
std::vector<std::string> output_file_names(const std::vector<std::string>& outputs);

}  // namespace temper::cli
