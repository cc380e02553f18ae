// SPDX-License-Identifier: Apache-2.0
// transpose on GPUs, as a copy.
#include "graph/ops/transpose.h"

#include "backends/cuda/copy/copy.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Transpose>()) return refused("not a transpose");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  return {{"", std::vector<Layout>(problem.inputs.size(), Layout::plain), {Layout::plain}}};
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& perm = problem.op.get<ops::Transpose>().perm;
  const TensorType& output = problem.outputs[0].type;
  const Dims dims = output.dims(), from = logical_strides(problem.inputs[0], config.inputs[0]);
  Dims strides;
  for (int64_t axis : perm) strides.push_back(from[size_t(axis)]);
  return {copy_jobs(size_of(output.dtype), dims, strides, logical_strides(problem.outputs[0], config.outputs[0]), 0, 0,
                    {Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}),
          0,
          {},
          {}};
}

}  // namespace

extern const Recipe transpose_recipe;
const Recipe transpose_recipe{"cuda.transpose", 1, supports, configs, work, {}, takes_all_parts};

}  // namespace temper::cuda
