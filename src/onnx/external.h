// SPDX-License-Identifier: Apache-2.0
// Opens the files beside a model that hold its weights.
#pragma once
#include <string>
#include <vector>

#include "base/file.h"

namespace temper {

// Opens a model's external data: `location` must be a plain relative path that stays inside `folder`, links included.
// It is walked name by name, each opened in the folder before it, so that nobody who changes links meanwhile leads out
// of the model's folder. Throws Error{bad_file}.
OpenFile open_external(const std::string& folder, const std::string& location);

// A model's file and those of its external data, as far as it can be read. For verbs that must not write over them.
std::vector<std::string> model_files(const std::string& path);

}  // namespace temper
