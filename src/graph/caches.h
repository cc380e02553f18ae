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
// i64 [B]: lengths + counts; i64 [B,1]: the token of the largest logit, or the first of several.
constexpr std::string_view kNextLengths = "next_lengths", kNext = "next";
constexpr std::string_view kTokens = "input_ids",
                           kLogits = "logits";  // i64 [B,S]; [B,V], of the last token that counts

// The pairs of inputs and outputs that exporters name past_key_values.0.key and present.0.key, or alike.
std::vector<std::pair<std::string, std::string>> pairs_by_name(const std::vector<std::string>& inputs,
                                                               const std::vector<std::string>& outputs);

}  // namespace temper::caches
