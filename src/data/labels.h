// SPDX-License-Identifier: Apache-2.0
// Reads class names: a text file, one a line; the first line is class 0.
#pragma once
#include <string>
#include <vector>

namespace temper {

// Line ends of either kind; blank lines at the end are no classes, a blank line before that is one without a name.
// Throws Error{bad_file}, naming the path, for an empty file and for control characters (it is not a text file).
std::vector<std::string> read_class_names(const std::string& path);

}  // namespace temper
