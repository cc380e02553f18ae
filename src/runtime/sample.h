// SPDX-License-Identifier: Apache-2.0
// Chooses a token by its logits: the largest, or one at random by a distribution that temperature, top-k, top-p and a
// penalty for repetition shape.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

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

// Throws Error{bad_file} where `best`, the token of the largest logit, has one that is NaN (which counts as the
// largest) or infinite.
void expect_number(std::span<const float> logits, int64_t best);

// One row of tokens. The same seed and logits give the same tokens on every machine.
class Sampler {
 public:
  explicit Sampler(const SampleOptions& options, int64_t row = 0);
  // `seen`: the row so far. The penalty comes first, then temperature, top-k, top-p, as in transformers; of equal
  // logits the lower token counts as larger. Throws Error{bad_file} for logits that are NaN or all -inf, and has
  // drawn nothing then.
  int64_t choose(std::span<const float> logits, std::span<const int64_t> seen);

 private:
  SampleOptions options_;
  std::mt19937_64 random_;
  std::vector<float> logits_;
  std::vector<int64_t> order_;
  std::vector<double> weights_;
};

}  // namespace temper
