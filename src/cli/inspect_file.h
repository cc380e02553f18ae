// SPDX-License-Identifier: Apache-2.0
// Prints a file of any other kind that Temper writes or reads, for `temper inspect`.
#pragma once
#include <string>

#include "base/file_kind.h"

namespace temper::cli {

// Every kind but models and plans, and what Temper did not write.
bool knows_kind(FileKind kind);
// Prints what such a file holds. Throws Error{bad_file} for a damaged one.
void inspect_file(const std::string& path, FileKind kind, bool json);

}  // namespace temper::cli
