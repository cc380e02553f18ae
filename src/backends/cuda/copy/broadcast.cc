// SPDX-License-Identifier: Apache-2.0
// broadcast on GPUs, as a copy.
#include "graph/ops/broadcast.h"

#include "backends/cuda/copy/copy.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Broadcast>()) return refused("not a broadcast");
  if (problem.inputs.size() > 1) return refused("its shape is data");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  return {{"", std::vector<Layout>(problem.inputs.size(), Layout::plain), {Layout::plain}}};
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const TensorType& output = problem.outputs[0].type;
  const Dims dims = output.dims();
  return {copy_jobs(size_of(output.dtype), dims, broadcast_strides(problem.inputs[0].dims(), dims),
                    logical_strides(problem.outputs[0], config.outputs[0]), 0, 0, {Slot::Kind::input, 0, 0},
                    {Slot::Kind::output, 0, 0}),
          0,
          {},
          {}};
}

bool takes_parts(const Problem& problem, const Config&) { return problem.inputs[0].pitch == 0; }

}  // namespace

extern const Recipe broadcast_recipe;
const Recipe broadcast_recipe{"cuda.broadcast", 1, supports, configs, work, {}, takes_parts};

}  // namespace temper::cuda
