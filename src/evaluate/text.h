// SPDX-License-Identifier: Apache-2.0
// Evaluations in words and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/agreement.h"

namespace temper {

std::string decibel_text(double db);             // "31.2 dB", "no difference", "lost"
std::string mcnemar_text(const McNemar& pairs);  // "2 lost, 1 won of 599 (McNemar, exact p = 1); drop 0.17 points, ..."
// "perplexity of the next token 31.2, of the reference 31.1 (+0.3 %), 4096 tokens"; evaluation.perplexity is there.
std::string perplexity_text(const Evaluation& evaluation);
nlohmann::ordered_json json_of(const Evaluation& evaluation);
nlohmann::ordered_json json_of(const std::vector<Unreadable>& left_out);  // a list of picture, why

}  // namespace temper
