// SPDX-License-Identifier: Apache-2.0
// One worker's share of an evaluation as text, for the process that joins the shares.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/evaluate.h"

namespace temper {

std::string to_json(const EvaluatedPart& part);
EvaluatedPart evaluated_part_from_json(std::string_view text);  // strict; throws Error{bad_file}

}  // namespace temper
