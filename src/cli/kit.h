// SPDX-License-Identifier: Apache-2.0
// A kit: a model with its ranges, measured times and the options of its build in one folder, which any device builds
// from. docs/files.md has what is in it.
#pragma once
#include <string>
#include <vector>

#include "cli/model.h"

namespace temper::cli {

constexpr std::string_view kKitSchema = "temper.kit/1";

// How the model is built; what belongs to a device is not of it.
struct KitBuild {
  std::string precision = "fp32";
  std::vector<std::string> shapes;
  std::vector<int64_t> buckets;
  std::string activation_scales = "tensor";
  bool keep_first = false, keep_last = false;
  std::string keep_fp32, keep_bf16, keep_fp16, disabled_passes, preprocess;  // preprocess: as text_of() has it
  int64_t cache = 0;
  bool input_pictures = false;
};

struct Kit {
  std::string model, ranges, times;  // paths; "": none
  KitBuild build;
};

// Writes the folder, whole or not at all: copies of the model and of what lies beside it, of the ranges, and the times
// of all timing caches. An earlier kit of that name is replaced in one step with `force` alone; what is no kit never.
// Throws Error{usage} for ranges of another model, and what reading and writing throw.
void write_kit(const std::string& folder, const std::string& model, const std::string& ranges,
               const std::vector<std::string>& timing_caches, const KitBuild& build, bool force);

// Throws Error{bad_file} for a folder that is no kit, and where a file of it is missing or not as it was written, and
// Error{unsupported} for one of a later version.
Kit read_kit(const std::string& folder);

}  // namespace temper::cli
