// SPDX-License-Identifier: Apache-2.0
// Reads JSON as trtexec writes it: names stand in the text as they are, with quotes, backslashes and control characters
// that JSON wants escaped. Included by .cc files only.
#pragma once
#include <string>

#include "base/strict_json.h"

namespace temper {

// Strings in which only \" \\ \/ and \uXXXX are taken for escapes; a quote ends one only where a key, a value or the
// end follows as it must. Control characters and bytes that are no UTF-8 are escaped or replaced.
std::string with_escaped_names(std::string_view text);

// As it stands if it is JSON, else with its names escaped. Throws Error{bad_file} with the place.
strict::Json parse_layer_json(std::string_view text, std::string_view what);

}  // namespace temper
