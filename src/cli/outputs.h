// SPDX-License-Identifier: Apache-2.0
// Checks the files that a verb reads and writes against each other before it does any work (check_outputs in
// base/file.h).
#pragma once
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/model.h"

namespace temper::cli {

void add_force_flag(CLI::App& verb, bool& force);  // --force

struct VerbFiles {
  std::vector<std::string> models;  // ONNX models, whose external data is read, too, or plans
  std::vector<std::string> reads;   // other files, and folders; "" and what does not exist pass
  std::vector<Output> writes;
};
// With --calibration, --qdq and --timing-cache of a verb that builds.
VerbFiles with_build_files(VerbFiles files, const ModelFlags& flags, bool force = false);

// Throws what check_outputs throws.
void check_files(const VerbFiles& files);

}  // namespace temper::cli
