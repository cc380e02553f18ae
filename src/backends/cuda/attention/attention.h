// SPDX-License-Identifier: Apache-2.0
// Functions that the kernels of attention share. They say which problems are taken, and write the head of their texts
// and their parameters (scores.cuh).
#pragma once
#include "backends/cuda/recipe.h"
#include "graph/ops/attention.h"

namespace temper::cuda {

enum AttentionInput : size_t { kQ, kK, kV, kMask, kLengths };

inline bool has(const Problem& problem, AttentionInput input) {
  return problem.inputs.size() > input && problem.inputs[input].present;
}
inline ops::AttentionSizes attention_sizes(const Problem& problem) {
  return ops::sizes_of(problem.op.get<ops::Attention>(), problem.inputs[kQ].dims(), problem.inputs[kK].dims(),
                       problem.inputs[kV].dims());
}

Support attention_supports(const Problem& problem);
bool attention_takes_parts(const Problem& problem, const Config& config);
// Arguments of the kernel, each with a comma behind it, and their slots, for the mask and the lengths that there are.
void add_masks(const Problem& problem, std::string& arguments, std::vector<Slot>& slots);
// The constants that scores.cuh asks for; `keys`: of a block.
std::string attention_constants(const Problem& problem, int keys);
// Sets the job's parameters, struct Parameters of scores.cuh; `tiles`: of queries, of a head.
void set_attention_parameters(Job& job, const Problem& problem, int64_t tiles);

}  // namespace temper::cuda
