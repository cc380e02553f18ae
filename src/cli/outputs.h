// SPDX-License-Identifier: Apache-2.0
// The option --force, and the files that verbs read and write when they build (for check_files).
#pragma once
#include <string>
#include <vector>

#include "cli/model.h"
#include "onnx/used_files.h"

namespace temper::cli {

void add_force_flag(Command& verb, bool& force);  // --force

// With --calibration, --qdq and --timing-cache of a verb that builds.
UsedFiles with_build_files(UsedFiles files, const ModelFlags& flags, bool force = false);

}  // namespace temper::cli
