// SPDX-License-Identifier: Apache-2.0
// How tokens are chosen by their logits (graph/ops/sample.h): the largest, or one at random by a distribution that
// temperature, top-k, top-p and a penalty for repetition shape.
#pragma once
#include <cstdint>
#include <span>

namespace temper {

struct SampleOptions {
  double temperature = 0;         // logits are divided by it; 0: the largest logit wins, and nothing is random
  int64_t top_k = 0;              // only so many of the largest logits; 0: all
  double top_p = 1;               // only the fewest of the largest whose probabilities sum to this much
  double repetition_penalty = 1;  // logits of tokens seen before: those above 0 are divided by it, others multiplied
  uint64_t seed = 0;
  bool operator==(const SampleOptions&) const = default;
};
// Throws Error{usage} for a temperature below 0, a top_p outside of (0, 1], a penalty not above 0, a negative top_k.
void check(const SampleOptions& options);

// The numbers from 0 to 1 that the first tokens of a row are drawn by, the same on every machine.
void fill_draws(uint64_t seed, int64_t row, std::span<double> draws);

}  // namespace temper
