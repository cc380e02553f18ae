// SPDX-License-Identifier: Apache-2.0
// JSON as --json prints it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace temper::cli {

// As --json prints it: indented, with a line break at its end. Names out of files may not be UTF-8: U+FFFD stands for
// such bytes.
std::string json_text(const nlohmann::ordered_json& json);
void print_json(const nlohmann::ordered_json& json);  // to stdout

}  // namespace temper::cli
