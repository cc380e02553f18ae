// SPDX-License-Identifier: Apache-2.0
// Writes explanations as text, as markdown and as JSON. The JSON is described in docs/explain.md.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "bench/explain.h"

namespace temper {

enum class TextStyle { terminal, markdown };

// `all`: every finding; otherwise those of less than 0.5 % of the time are counted only. `width`: of the terminal, 0
// for any.
std::string text_of(const Explanation& explanation, TextStyle style = TextStyle::terminal, bool all = false,
                    size_t width = 100);
// The comparison alone.
std::string text_of(const ExplainedSet& set, TextStyle style = TextStyle::terminal, size_t width = 100);

nlohmann::ordered_json json_of(const Explanation& explanation);
// {"schema": "temper.explain/1", "engines", "steps", "answers"}
nlohmann::ordered_json json_of(const ExplainedSet& set);

}  // namespace temper
