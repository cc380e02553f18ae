// SPDX-License-Identifier: Apache-2.0
// Reads JSON from a file that may be hostile: bounded depth, no key twice; base/json_struct.h asks for what is in it.
// Included by .cc files only.
#pragma once
#include <concepts>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace temper::strict {

using Json = nlohmann::json;

// Throws Error{bad_file}: "`what` is damaged: ...".
Json parse(std::string_view text, std::string_view what);
// JSON that a terminal may be shown: what `printable` (base/quote.h) takes out of text is escaped, bytes that are not
// UTF-8 are U+FFFD. `indent` -1: one line.
std::string dump(const Json& json, int indent = -1);
std::string dump_ordered(const nlohmann::ordered_json& json, int indent);
template <std::same_as<nlohmann::ordered_json> Ordered>  // and nothing that becomes one
std::string dump(const Ordered& json, int indent = -1) {
  return dump_ordered(json, indent);
}

}  // namespace temper::strict
