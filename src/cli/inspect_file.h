// SPDX-License-Identifier: Apache-2.0
// What `temper inspect` shows of the other files that Temper writes or reads.
#pragma once
#include <string>

#include "base/file_kind.h"

namespace temper::cli {

// Ranges, results, profiles, explanations, studies and their steps, timing and calibration caches, texts of graphs.
bool knows_kind(FileKind kind);
// Prints what such a file holds. Throws Error{bad_file} for a damaged one.
void inspect_file(const std::string& path, FileKind kind, bool json);

}  // namespace temper::cli
