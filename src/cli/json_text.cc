// SPDX-License-Identifier: Apache-2.0
#include "cli/json_text.h"

#include <cstdio>

#include "base/strict_json.h"

namespace temper::cli {

std::string json_text(const nlohmann::ordered_json& json) { return strict::dump(json, 2) + "\n"; }

void print_json(const nlohmann::ordered_json& json) { std::fputs(json_text(json).c_str(), stdout); }

}  // namespace temper::cli
