// SPDX-License-Identifier: Apache-2.0
// The inputs and outputs of a model that goes on from what it read before, as passes/keep_caches.h makes it and
// runtime/generate.h runs it: caches of keys and values, and how many positions of them each row of the batch holds.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace temper::caches {

// i64 [B]: positions that the caches hold; of the S tokens that are read now, those that count. The others stand behind
// them, and what is written for them is written over by the next run. A row with a count of 0 stays as it is, and its
// logits mean nothing.
constexpr std::string_view kLengths = "lengths", kCounts = "counts";
// i64 [B,positions,1]: the tokens that the caches hold, a cache themselves; with those read now.
constexpr std::string_view kPastTokens = "past_ids", kPresentTokens = "present_ids";
// f64 [B,4] and [B,positions]: how the next token is chosen, and a number from 0 to 1 for each length (ops/sample.h).
constexpr std::string_view kSettings = "settings", kDraws = "draws";
// i64 [B]: lengths + counts; i64 [B,1]: the token that is chosen, and whether its logit is a number (ops/sample.h).
constexpr std::string_view kNextLengths = "next_lengths", kNext = "next", kFlaw = "flaw";
constexpr std::string_view kTokens = "input_ids",
                           kLogits = "logits";  // i64 [B,S]; [B,V], of the last token that counts

// The pairs of inputs and outputs that exporters name past_key_values.0.key and present.0.key, or alike.
std::vector<std::pair<std::string, std::string>> pairs_by_name(const std::vector<std::string>& inputs,
                                                               const std::vector<std::string>& outputs);

}  // namespace temper::caches
