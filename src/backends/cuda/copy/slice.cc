// SPDX-License-Identifier: Apache-2.0
// slice on GPUs, as a copy.
#include "graph/ops/slice.h"

#include "backends/cuda/copy/copy.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Slice>()) return refused("not a slice");
  if (problem.inputs.size() > 1) return refused("its bounds are data");
  return supported();
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::Slice>();
  const TensorType& output = problem.outputs[0].type;
  const Dims dims = output.dims();
  Dims strides = logical_strides(problem.inputs[0], config.inputs[0]);
  int64_t from = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    from += op.starts[axis].value() * strides[axis];
    strides[axis] *= op.steps[axis];
  }
  return {copy_jobs(size_of(output.dtype), dims, strides, logical_strides(problem.outputs[0], config.outputs[0]), from,
                    0, {Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}),
          0,
          {},
          {}};
}

// Where both layouts are the same bytes, plain ones alone: rows and columns of those are parts of a whole, which take
// no step (plan/parts.h).
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> all = same_layout_configs(problem, gpu);
  const auto alike = [](const Port& port) { return same_memory(port.dims(), Layout::plain, Layout::channels_last); };
  if (all.size() > 1 && alike(problem.inputs[0]) && alike(problem.outputs[0]))
    std::erase_if(all, [](const Config& config) { return config.outputs[0] != Layout::plain; });
  return all;
}

}  // namespace

extern const Recipe slice_recipe;
const Recipe slice_recipe{"cuda.slice", 1, supports, configs, work, {}, takes_all_parts};

}  // namespace temper::cuda
