// SPDX-License-Identifier: Apache-2.0
#include "cli/json_text.h"

#include "base/strict_json.h"

namespace temper::cli {

std::string json_text(const nlohmann::ordered_json& json) { return strict::dump(json, 2) + "\n"; }

}  // namespace temper::cli
